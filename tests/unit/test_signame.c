#include <criterion/criterion.h>
#include <signal.h>

#include "store/base/signame.h"

Test(signame, every_signal_has_a_name_that_leads_back_to_it)
{
    char buf[CC_SIGNAME_MAX];
    int  s;

    for (s = 1; s <= SIGRTMAX; s++)
        if (s < 32 || s >= SIGRTMIN)
            cr_assert_eq(cc_signal_number(cc_signal_name(s, buf)), s, "%d is %s", s, cc_signal_name(s, buf));
}

Test(signame, knows_the_usual_spellings_and_no_others)
{
    char buf[CC_SIGNAME_MAX];

    cr_assert_str_eq(cc_signal_name(SIGABRT, buf), "SIGABRT");
    cr_assert_str_eq(cc_signal_name(SIGRTMIN + 3, buf), "SIGRTMIN+3");
    cr_assert_str_eq(cc_signal_name(99, buf), "signal 99");
    cr_assert_eq(cc_signal_number("SIGRTMAX-1"), SIGRTMAX - 1);
    cr_assert_eq(cc_signal_number("TERM"), 0);
    cr_assert_eq(cc_signal_number("SIGRTMIN+99"), 0);
    cr_assert_eq(cc_signal_number("SIGRTMINx"), 0);
    cr_assert_eq(cc_signal_number(""), 0);
}
