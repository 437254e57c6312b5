/* Clusters of containers and clouds, which start a ccrun on each node. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/rdzv_msg.h"
#include "launcher/allocation_read.h"
#include "launcher/endpoint.h"
#include "store/base/cleanup.h"

enum { DEFAULT_PORT = 29500 };

static void json_freep(cJSON **p)
{
    cJSON_Delete(*p);
}

static bool is_in_kubernetes(const struct reader *r)
{
    return reader_text(r, "KUBERNETES_SERVICE_HOST");
}

/* The names of a JSON list, in its order. */
static int add_hosts(const struct reader *r, const char *from, const cJSON *list, struct cc_err *err)
{
    const cJSON *item;
    int          code = 0;

    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item))
            return cc_fail(err, -EINVAL, "%s is not a list of host names", from);
        code = reader_add_host(r, from, item->valuestring, strlen(item->valuestring), 0, err);
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- SageMaker */

#define SAGEMAKER_FILE "/opt/ml/input/config/resourceconfig.json"

static int read_sagemaker(const struct reader *r, const char *from, const char *text, bool is_file, struct cc_err *err)
{
    CC_AUTO(json_freep) cJSON *json = cJSON_Parse(text);
    const cJSON               *hosts = is_file ? cJSON_GetObjectItemCaseSensitive(json, "hosts") : json;
    const char                *ours = reader_text(r, "SM_CURRENT_HOST");
    int                        code;

    if (!cJSON_IsArray(hosts))
        return cc_fail(err, -EINVAL, "%s is not a list of host names", from);
    code = add_hosts(r, from, hosts, err);
    for (size_t i = 0; code == 0 && ours && i < r->a->hosts.n; i++)
        if (strcmp(r->a->hosts.host[i].name, ours) == 0) {
            r->a->node_rank = (int) i;
            r->a->node_rank_from = "SM_CURRENT_HOST";
        }
    if (code == 0)
        reader_listed(r, from);
    return code;
}

int allocation_sagemaker(const struct reader *r, struct cc_err *err)
{
    const char *text = reader_text(r, "SM_HOSTS");
    char        file[65536];
    int         code = 0;

    if (text)
        code = read_sagemaker(r, "SM_HOSTS", text, false, err);
    else if (machine_read(r->m, file, sizeof file, "%s", SAGEMAKER_FILE) > 0)
        code = read_sagemaker(r, SAGEMAKER_FILE, file, true, err);
    if (r->a->nodes > 0)
        r->a->role = ALLOCATION_MEMBER;
    r->a->iface = reader_text(r, "SM_NETWORK_INTERFACE_NAME");
    r->a->iface_from = "SM_NETWORK_INTERFACE_NAME";
    reader_port_of_job(r);
    return code;
}

/* ---- Azure ML */

int allocation_azure(const struct reader *r, struct cc_err *err)
{
    const char *at = reader_text(r, "AZ_BATCH_MASTER_NODE");
    const char *mpi = reader_text(r, "AZ_BATCHAI_MPI_MASTER_NODE");
    const char *master = reader_text(r, "MASTER_ADDR");
    int         code = reader_nodes(r, "AZUREML_NODE_COUNT", err);

    if (code == 0)
        code = reader_node_rank(r, "NODE_RANK", err);
    if (code == 0 && at)
        code = reader_endpoint(r, "AZ_BATCH_MASTER_NODE", at, err);
    else if (code == 0 && mpi && !endpoint_is_loopback(mpi))
        reader_head(r, mpi, "AZ_BATCHAI_MPI_MASTER_NODE");
    else if (code == 0 && master && !endpoint_is_loopback(master))
        reader_head(r, master, "MASTER_ADDR");
    if (code == 0 && r->a->port == 0)
        code = reader_port(r, "MASTER_PORT", err);
    if (r->a->nodes > 0 && r->a->node_rank != ALLOCATION_NO_RANK)
        r->a->role = ALLOCATION_MEMBER;
    reader_port_of_job(r);
    return code;
}

/* ---- AWS Batch */

int allocation_aws(const struct reader *r, struct cc_err *err)
{
    const char *main_node = reader_text(r, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
    unsigned    head = 0;
    int         code = reader_nodes(r, "AWS_BATCH_JOB_NUM_NODES", err);

    if (code == 0)
        code = reader_node_rank(r, "AWS_BATCH_JOB_NODE_INDEX", err);
    if (code == 0)
        code = reader_number(r, "AWS_BATCH_JOB_MAIN_NODE_INDEX", RDZV_NODES_MAX, &head, err);
    if (code < 0 || r->a->nodes == 0)
        return code < 0 ? code : 0;
    if (main_node) /* the main node itself is not told */
        reader_head(r, main_node, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
    else if (r->a->node_rank == (int) head)
        reader_head(r, r->host, "AWS_BATCH_JOB_MAIN_NODE_INDEX");
    r->a->role = ALLOCATION_MEMBER;
    reader_port_of_job(r);
    return 0;
}

/* ---- Vertex AI */

/* The pools in their order, and our place: {"cluster":{"workerpool0":["h:2222"],...},"task":{"type":..,"index":..}} */
static int read_pools(const struct reader *r, const cJSON *json, struct cc_err *err)
{
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(json, "cluster");
    const cJSON *task = cJSON_GetObjectItemCaseSensitive(json, "task");
    const char  *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "type"));
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(task, "index"), *pool, *host;
    unsigned     n = 0;
    int          at = cJSON_IsNumber(index) ? index->valueint : 0;

    cJSON_ArrayForEach(pool, cluster)
    {
        if (type && pool->string && strcmp(type, pool->string) == 0 && at >= 0 && at < cJSON_GetArraySize(pool))
            r->a->node_rank = (int) n + at;
        cJSON_ArrayForEach(host, pool)
        {
            int code = 0;

            if (!cJSON_IsString(host))
                return cc_fail(err, -EINVAL, "CLUSTER_SPEC has a host that is no text");
            if (n == 0)
                code = reader_endpoint(r, "CLUSTER_SPEC", host->valuestring, err);
            if (code < 0)
                return code;
            n++;
        }
    }
    if (n > RDZV_NODES_MAX)
        return cc_fail(err, -EINVAL, "CLUSTER_SPEC has %u hosts; the limit is %d", n, RDZV_NODES_MAX);
    r->a->nodes = n;
    return 0;
}

int allocation_vertex(const struct reader *r, struct cc_err *err)
{
    const char                *text = reader_text(r, "CLUSTER_SPEC");
    CC_AUTO(json_freep) cJSON *json = text ? cJSON_Parse(text) : NULL;
    int                        code;

    if (!text)
        return 0;
    if (!cJSON_IsObject(json))
        return cc_fail(err, -EINVAL, "CLUSTER_SPEC is not a JSON object");
    r->a->nodes_from = r->a->node_rank_from = "CLUSTER_SPEC";
    code = read_pools(r, json, err);
    if (r->a->nodes > 0 && r->a->node_rank != ALLOCATION_NO_RANK)
        r->a->role = ALLOCATION_MEMBER;
    reader_port_of_job(r);
    return code;
}

/* ---- SkyPilot, DLRover */

int allocation_skypilot(const struct reader *r, struct cc_err *err)
{
    const char *ips = reader_text(r, "SKYPILOT_NODE_IPS");
    int         code = reader_nodes(r, "SKYPILOT_NUM_NODES", err);

    if (code == 0)
        code = reader_node_rank(r, "SKYPILOT_NODE_RANK", err);
    while (code == 0 && ips && *(ips += strspn(ips, " \r\n"))) {
        size_t n = strcspn(ips, " \r\n");

        code = reader_add_host(r, "SKYPILOT_NODE_IPS", ips, n, 0, err);
        ips += n;
    }
    if (code < 0)
        return code;
    reader_listed(r, "SKYPILOT_NODE_IPS");
    if (r->a->nodes > 0)
        r->a->role = ALLOCATION_MEMBER;
    reader_port_of_job(r);
    return 0;
}

int allocation_dlrover(const struct reader *r, struct cc_err *err)
{
    int code = reader_nodes(r, "NODE_NUM", err);

    if (code == 0)
        code = reader_node_rank(r, "NODE_RANK", err);
    if (r->a->nodes > 0 && r->a->node_rank != ALLOCATION_NO_RANK)
        r->a->role = ALLOCATION_MEMBER;
    return code;
}

/* ---- Kubeflow's PyTorchJob v1, Volcano, PAI: RANK is the index of the pod, WORLD_SIZE the number of pods */

/* A launcher, maybe we ourselves, has given the environment of a worker: its RANK is no node's. */
static bool is_in_worker(const struct reader *r)
{
    return reader_text(r, "LOCAL_RANK") || reader_text(r, "GROUP_RANK") || reader_text(r, "TORCHELASTIC_RUN_ID");
}

/* People export the same on a laptop to run a script by hand. */
static bool are_pods(const struct reader *r, const char *master)
{
    return !is_in_worker(r) && (!endpoint_is_loopback(master) || is_in_kubernetes(r));
}

int allocation_pods(const struct reader *r, struct cc_err *err)
{
    const char *master = reader_text(r, "MASTER_ADDR");
    int         code;

    if (!master || !are_pods(r, master))
        return 0;
    code = reader_nodes(r, "WORLD_SIZE", err);
    if (code == 0)
        code = reader_node_rank(r, "RANK", err);
    if (code == 0)
        code = reader_port(r, "MASTER_PORT", err);
    if (code < 0 || r->a->nodes == 0 || r->a->node_rank == ALLOCATION_NO_RANK)
        return code;
    /* The first pod is told "localhost", while the others are told its name: it has to be found by that. */
    reader_head(r, endpoint_is_loopback(master) ? r->host : master, "MASTER_ADDR");
    if (r->a->port == 0) {
        r->a->port = DEFAULT_PORT;
        r->a->port_from = "the default";
    }
    r->a->role = ALLOCATION_MEMBER;
    return 0;
}

/* ---- an Indexed Job or a JobSet: how many pods there are, the user has to say */

/* Pod 3 of a job is "job-3.service.namespace..." when it has its full name: pod 0 is found beside it. */
static void guess_head(const struct reader *r)
{
    char        suffix[16], head[ALLOCATION_HOST_MAX];
    const char *dot = strchr(r->host, '.');
    size_t      n = dot ? (size_t) (dot - r->host) : 0, n_suffix;

    n_suffix = (size_t) snprintf(suffix, sizeof suffix, "-%d", r->a->node_rank);
    if (!dot || n <= n_suffix || strncmp(dot - n_suffix, suffix, n_suffix) != 0)
        return;
    if (snprintf(head, sizeof head, "%.*s-0%s", (int) (n - n_suffix), r->host, dot) < (int) sizeof head)
        reader_head(r, head, "JOB_COMPLETION_INDEX");
}

int allocation_indexed_job(const struct reader *r, struct cc_err *err)
{
    const char *set = reader_text(r, "JOBSET_NAME"), *job = reader_text(r, "REPLICATED_JOB_NAME");
    const char *global = reader_text(r, "JOB_GLOBAL_INDEX");
    char        head[ALLOCATION_HOST_MAX];
    int         code = 0;

    if (!global || strcmp(global, "0") == 0) /* the pods of the second job of a set begin at 0 again */
        code = reader_node_rank(r, "JOB_COMPLETION_INDEX", err);
    if (code < 0)
        return code;
    if (set && job && snprintf(head, sizeof head, "%s-%s-0-0.%s", set, job, set) < (int) sizeof head)
        reader_head(r, head, "JOBSET_NAME");
    else if (r->a->node_rank != ALLOCATION_NO_RANK)
        guess_head(r);
    r->a->role = ALLOCATION_EITHER;
    return 0;
}

/* ---- what many scripts export: good for those who say how many nodes there are, and nobody else's business */

int allocation_by_node_rank(const struct reader *r, struct cc_err *err)
{
    const char *master = reader_text(r, "MASTER_ADDR");

    if (reader_text(r, "NODE_RANK"))
        (void) reader_node_rank(r, "NODE_RANK", err);
    else if (master && !is_in_worker(r))
        (void) reader_node_rank(r, "RANK", err);
    if (master && !endpoint_is_loopback(master)) {
        reader_head(r, master, "MASTER_ADDR");
        (void) reader_port(r, "MASTER_PORT", err);
    }
    if (r->a->node_rank != ALLOCATION_NO_RANK || r->a->head[0])
        r->a->role = ALLOCATION_EITHER;
    return 0;
}
