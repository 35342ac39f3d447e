"""redis-py finds its way in a cluster, also while slots and masters change."""

import sys

import redis
from redis.cluster import RedisCluster

control, first = map(int, sys.argv[1:3])
control = redis.Redis(port=control)
cluster = RedisCluster(host="127.0.0.1", port=first)
keys = [f"key:{number}" for number in range(100)]

for key in keys:
    cluster.set(key, 1)
assert cluster.mget_nonatomic(keys) == [b"1"] * 100
assert len(cluster.get_primaries()) == 3 and len(cluster.get_replicas()) == 3
assert cluster.dbsize(target_nodes=RedisCluster.PRIMARIES) == 100
print("ok every slot is found")

slot = cluster.keyslot("moving")
cluster.set("moving", "here")
source = cluster.get_node_from_key("moving")
target = next(node for node in cluster.get_primaries() if node != source)
source_id, target_id = (
    cluster.cluster_myid(node).decode() for node in (source, target)
)
cluster.cluster_setslot(target, source_id, slot, "IMPORTING")
cluster.cluster_setslot(source, target_id, slot, "MIGRATING")
mover = cluster.get_redis_connection(source)
assert mover.migrate(target.host, target.port, "moving", 0, 5000)
assert cluster.get("moving") == b"here"
for node in (target, source):
    cluster.cluster_setslot(node, target_id, slot, "NODE")
assert cluster.get("moving") == b"here"
print("ok a slot that moves is followed")

control.execute_command("REDOUBLE.NODE", "FAILOVER", "replica-1-1")
for key in keys:
    assert cluster.incr(key) == 2
with cluster.pipeline() as pipeline:
    for key in keys:
        pipeline.get(key)
    assert pipeline.execute() == [b"2"] * 100
print("ok a failover is followed")
