"""Where Warren's tools say something else than RabbitMQ's on purpose, by step, with the reason.

What they say there is in `answers/warren.json`, and compared as strictly.
"""

from __future__ import annotations

IN_WORDS = "RabbitMQ shows a term of Erlang; here it is said in words"
FAILS = "RabbitMQ's tool fails with an exception of its own"
ABSENT = "there is no such command, and it says so with the code for unavailable"
NO_MIRRORS = "there are no mirrored queues, and it says so with the code for unavailable"
DONE = "an import is done when it returns, and what is wrong in it is named"
JOINED = "RabbitMQ writes the words of a list without anything between them"
EMPTY_COLUMNS = "the columns of mirrored queues are in the guides: they are there, and empty"
OWN_FACTS = "what a node says of itself is Warren's, under RabbitMQ's names where they fit"
LISTENERS = "AMQP 1.0 is not spoken there"
FLAGS = "feature flags are those of Warren's cluster versions; what is deprecated it refuses"
PLUGINS = "but for the event exchange nothing is switched on or off: a feature is built in or not"

DESCRIBED = "no vhost is described by itself"
LOG_EXCHANGE = "there is no exchange for the log"
STREAMS = "there are no streams, which are among the types that RabbitMQ names"
LOOKED_AT = "alarms are looked at, where RabbitMQ does nothing any more"
OWN_PAGE = "RabbitMQ names a page of its own"

_BY_REASON: dict[str, str] = {
    IN_WORDS: """
rabbitmq-diagnostics certificates
rabbitmqctl clear_password none
rabbitmqctl set_user_limits new 'x'
rabbitmqctl set_user_limits none '{"max-connections": 5}'
rabbitmqctl list_user_limits --user none
rabbitmqctl set_permissions -p v new '*' '.*' '.*'
rabbitmqctl list_user_permissions none
rabbitmqctl set_policy p '^q' '{'
rabbitmqctl set_policy p '*' '{"max-length": 10}'
rabbitmqctl set_global_parameter colour 'blue'
rabbitmqctl close_connection '<none>' over
rabbitmq-queues shrink none@localhost
rabbitmq-diagnostics discover_peers
rabbitmq-upgrade post_upgrade
""",
    FAILS: """
rabbitmqctl list_users --formatter=csv
rabbitmqctl list_queues -p orders name arguments policy effective_policy_definition --formatter csv
rabbitmqctl list_queues --formatter none
rabbitmqctl await_online_nodes 0
""",
    JOINED: """
rabbitmq-diagnostics tls_versions
rabbitmqctl list_users --formatter pretty_table
"""
    "rabbitmqctl list_queues -p orders name arguments policy effective_policy_definition "
    "--formatter pretty_table",
    EMPTY_COLUMNS: """
rabbitmqctl list_queues name policy pid slave_pids
rabbitmqctl list_queues name slave_pids synchronised_slave_pids
""",
    DONE: """
rabbitmqctl import_definitions {definitions}
rabbitmqctl import_definitions {out}
rabbitmqctl import_definitions --skip-if-unchanged {definitions}
rabbitmqctl import_definitions
""",
    OWN_FACTS: """
rabbitmq-diagnostics tls_versions --formatter json
rabbitmqctl status
rabbitmqctl status --formatter json
rabbitmqctl cluster_status
rabbitmqctl cluster_status --formatter json
rabbitmqctl environment --formatter json
rabbitmqctl export_definitions -
rabbitmq-diagnostics log_location
rabbitmq-diagnostics status --formatter json
rabbitmq-diagnostics cluster_status -q
""",
    LISTENERS: """
rabbitmq-diagnostics listeners
rabbitmq-diagnostics listeners --formatter json
""",
    FLAGS: """
rabbitmqctl list_deprecated_features
rabbitmqctl list_feature_flags
rabbitmqctl list_feature_flags name state
""",
    PLUGINS: """
rabbitmq-plugins list
rabbitmq-plugins list -m
rabbitmq-plugins list -e
rabbitmq-plugins list --formatter json
rabbitmq-plugins is_enabled rabbitmq_mqtt
rabbitmq-plugins enable rabbitmq_management
rabbitmq-plugins enable none
rabbitmq-plugins enable rabbitmq_prometheus
rabbitmq-plugins disable rabbitmq_prometheus
rabbitmq-plugins directories
""",
    NO_MIRRORS: """
rabbitmqctl sync_queue q
rabbitmqctl cancel_sync_queue q
rabbitmq-queues check_if_cluster_has_classic_queue_mirroring_policy
rabbitmq-queues list_policies_with_classic_queue_mirroring
""",
    ABSENT: """
rabbitmqctl eval '1 + 1.'
rabbitmqctl list_hashes
rabbitmqctl rename_cluster_node a b
rabbitmqctl rotate_logs
rabbitmq-queues force_checkpoint
rabbitmq-queues stream_status q1
rabbitmq-diagnostics erlang_version
rabbitmq-diagnostics metadata_store_status
rabbitmq-diagnostics command_line_arguments
""",
    DESCRIBED: """
rabbitmqctl list_vhosts name tags default_queue_type description
""",
    LOG_EXCHANGE: """
rabbitmqctl list_exchanges
""",
    STREAMS: """
rabbitmq-queues rebalance classic
rabbitmq-queues rebalance none
""",
    LOOKED_AT: """
rabbitmq-diagnostics check_local_alarms
""",
    OWN_PAGE: """
rabbitmqctl node_health_check
""",
}

DEVIATIONS: dict[str, str] = {
    step: reason
    for reason, steps in _BY_REASON.items()
    for step in filter(None, steps.splitlines())
}
"""The reason for each step that differs."""

CODE, OUT, ERR = "code", "out", "err"
PARTS: dict[str, tuple[str, ...]] = {
    IN_WORDS: (OUT, ERR),
    FAILS: (CODE, OUT, ERR),
    ABSENT: (CODE, OUT, ERR),
    NO_MIRRORS: (CODE, OUT, ERR),
    DONE: (OUT, ERR),
    JOINED: (OUT,),
    EMPTY_COLUMNS: (CODE, OUT, ERR),
    OWN_FACTS: (OUT,),
    LISTENERS: (OUT,),
    FLAGS: (OUT,),
    PLUGINS: (CODE, OUT, ERR),
    DESCRIBED: (OUT,),
    LOG_EXCHANGE: (OUT,),
    STREAMS: (ERR,),
    LOOKED_AT: (OUT,),
    OWN_PAGE: (OUT,),
}
"""What of an answer may be another one, by the reason: all else is RabbitMQ's, to the letter."""

OWN_NAMES: dict[str, str] = {
    "product_name": "RabbitMQ's is empty",
    "product_version": "RabbitMQ's is empty",
    "versions": "it names Warren, and no Erlang; of TLS, those that Python's library knows",
    "r5890-1@localhost": "its versions, as above",
    "feature_flags": FLAGS,
    "listeners": LISTENERS,
    "plugins": PLUGINS,
    "active_plugins": PLUGINS,
    "config_files": "each has those that it was started with",
    "log_files": "each has those that it was started with",
    "data_directory": "each has its own",
    "raft_data_directory": "the log is in the directory of the data",
    "Node data directory": "each has its own",
    "vm_memory_high_watermark_setting": "it is told as the bytes that it comes to",
    "exchanges": LOG_EXCHANGE,
    "global_parameters": "each cluster has an id of its own",
    "users": "each password has another salt, and another way of hashing",
    "vhosts": DESCRIBED,
}
"""What is told under a name that both have and is another thing on purpose: names of values in JSON
and of lines of text, with the reason."""
