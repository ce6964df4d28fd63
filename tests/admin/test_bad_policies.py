"""Policies right and wrong are taken or refused as RabbitMQ 4.3 does it, in its words."""

from __future__ import annotations

import json

from tests.admin.bad_policies import FAILS, STORED, Policy, cases
from tests.metadata.cluster import Cluster
from warren.errors import Refusal
from warren.metadata.policy_checks import NOT_YET, check_set_policy

SAID = json.loads(STORED.read_text(encoding="utf-8"))
ALL = list(cases())
BAD_PATTERN = "pattern should be regular expression but is invalid: "


def answer(policy: Policy) -> str:
    """What Warren says to a policy; empty if it is taken."""
    machine = Cluster("a").machine
    before = machine.state_hash()
    definition = json.dumps(policy.definition)
    try:
        check_set_policy(
            machine, policy.operator, "/", "p", policy.pattern, definition, 0, policy.apply_to
        )
        return ""
    except Refusal as refusal:
        assert machine.state_hash() == before
        return refusal.text


def deviates(policy: Policy, said: str, ours: str) -> bool:
    """Whether Warren answers otherwise on purpose.

    Streams are not there yet. What RabbitMQ fails at is refused with a reason. What is wrong with a
    pattern is said in words of another library, which names groups by `(?P<name>`.
    """
    if policy.pattern != "^nothing$":
        return ours.startswith(BAD_PATTERN) and (
            said.startswith(BAD_PATTERN) or policy.pattern == "(?<n>a)"
        )
    if said == FAILS:
        return ours != ""
    names = policy.definition if isinstance(policy.definition, dict) else ()
    later = [name for name in names if name in NOT_YET]
    return said == "" and ours == (
        f"policy key '{later[0]}' is not supported yet by this version of Warren" if later else None
    )


def test_answers_are_those_of_rabbitmq() -> None:
    assert [policy.case for policy in ALL] == list(SAID)
    wrong: dict[str, tuple[str, str]] = {}
    for policy in ALL:
        said, ours = SAID[policy.case], answer(policy)
        if ours != said and not deviates(policy, said, ours):
            wrong[policy.case] = (ours, said)
    assert wrong == {}


def test_most_of_them_are_refused_by_rabbitmq_and_few_deviate() -> None:
    refused = [policy for policy in ALL if SAID[policy.case]]
    assert len(refused) > 2_500
    deviating = [policy for policy in ALL if answer(policy) != SAID[policy.case]]
    assert len(deviating) < 150
