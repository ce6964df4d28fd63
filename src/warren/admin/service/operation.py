"""What an operation is: a function that is authorised whenever it is called.

    @operation(MONITORING)
    async def quorum_status(
        service: AdminService, caller: Caller, *, vhost: str, queue: str
    ) -> list[MemberStatus]:

Who calls it as it stands there passes by `authorise` first, in the same call, and where the answer
comes in parts, before each further part. Its keywords are its arguments, and their types are what a
way in may check a request against.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    get_type_hints,
)

import msgspec

from warren.admin.service import audit
from warren.admin.service import caller as callers
from warren.admin.service.caller import ADMINISTRATOR, Caller

if TYPE_CHECKING:
    from warren.admin.service.service import AdminService

P = ParamSpec("P")
R = TypeVar("R")

Done = Callable[Concatenate["AdminService", Caller, P], R]


class Operation(Generic[P, R]):
    """One operation.

    Attributes:
        name: What requests call it.
        tag: The least tag that a caller needs.
        of_vhost: Whether a caller who is no administrator needs permissions in the vhost that the
            argument `vhost` names.
    """

    def __init__(self, function: Done[P, R], tag: str, of_vhost: bool) -> None:
        self.name = function.__name__
        self.tag = tag
        self.of_vhost = of_vhost
        self.__doc__ = function.__doc__
        self._function = function
        self._is_told = audit.is_told(self.name)

    def __call__(
        self, service: AdminService, caller: Caller, *args: P.args, **arguments: P.kwargs
    ) -> R:
        """Carry it out, if the caller may have that.

        Raises:
            Refusal: `ACCESS_REFUSED`; or another one, perhaps only when the answer is awaited.
        """
        vhost = str(arguments["vhost"]) if self.of_vhost else None
        callers.authorise(service.machine, caller, self.name, self.tag, vhost)
        callers.act_as(caller)
        done = self._function(service, caller, *args, **arguments)
        if isinstance(done, AsyncGenerator):
            done = cast(R, self._while_authorised(done, service, caller, vhost))
        return self._told(done, caller, arguments) if self._is_told else done

    async def _while_authorised(
        self,
        parts: AsyncGenerator[Any, None],
        service: AdminService,
        caller: Caller,
        vhost: str | None,
    ) -> AsyncGenerator[Any, None]:
        """The same parts of an answer, as long as the caller may have them.

        Raises:
            NotAuthorised: They may not any more.
        """
        try:
            async for part in parts:
                yield part
                now_ms = service.node.monotonic_ms()
                callers.check_still(service.machine, caller, now_ms, self.name, self.tag, vhost)
        finally:
            await parts.aclose()

    def _told(self, done: R, caller: Caller, arguments: Mapping[str, Any]) -> R:
        """The same answer, of which the log is told when it has come about."""
        whole, by = {**self._defaults, **arguments}, callers.who(caller)
        if isinstance(done, AsyncGenerator):
            return cast(R, audit.told_at_end(done, self.name, by, whole))
        assert isinstance(done, Awaitable), "operations are asynchronous"
        return cast(R, audit.told(done, self.name, by, whole))

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """Arguments that may be left out, with what they are then."""
        parameters = inspect.signature(self._function).parameters.values()
        return {each.name: each.default for each in parameters if each.default is not each.empty}

    @cached_property
    def arguments(self) -> type[msgspec.Struct]:
        """The arguments as a struct, whose fields have the names, types and defaults of them."""
        hints = get_type_hints(self._function)
        fields: list[Any] = []
        for parameter in inspect.signature(self._function).parameters.values():
            if parameter.kind == inspect.Parameter.KEYWORD_ONLY:
                field = (parameter.name, hints[parameter.name])
                without = parameter.default is inspect.Parameter.empty
                fields.append(field if without else (*field, parameter.default))
        return msgspec.defstruct(self.name, fields, kw_only=True)

    def asked(self, service: AdminService, caller: Caller, words: Mapping[str, Any]) -> Any:
        """Carry it out with the arguments of a request, which may be of any types.

        Raises:
            Refusal: As `__call__` does.
            ValueError: These are not its arguments.
        """
        read = msgspec.structs.asdict(msgspec.convert(words, self.arguments))
        call: Callable[..., Any] = self
        return call(service, caller, **read)


def operation(
    tag: str = ADMINISTRATOR, of_vhost: bool = False
) -> Callable[[Done[P, R]], Operation[P, R]]:
    """Make an operation of a function; see `Operation`."""

    def made(function: Done[P, R]) -> Operation[P, R]:
        return Operation(function, tag, of_vhost)

    return made
