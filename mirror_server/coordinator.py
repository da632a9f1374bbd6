"""How a server takes part among the processes that serve its database; in the core it is alone, and leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mirror_server.clock import Clock


class Participant(Protocol):
    """A server as its coordinator needs it. Nothing here may block for long."""

    def catch_up(self) -> None:
        """Signals may have been missed: look at everything they could have been about."""
        ...

    def begin_to_lead(self) -> None:
        """Make this process the leader from now on."""
        ...

    def go_on_leading(self) -> None:
        """This process is the leader still, and nobody else was meanwhile."""
        ...

    def pause_leading(self) -> None:
        """Whether this process is still the leader is not known: begin nothing that others could do as well."""
        ...

    def stop_leading(self) -> None:
        """Another process leads: forget what is under way."""
        ...


class Coordinator:
    """The coordinator of a server that serves its database alone: it leads from the start.

    Where others may serve it as well, the database's location names another class, whose methods may be hooks.

    Attributes:
        forward: Gives the leader's answer to the request at hand, given its WSGI environment and whether it is a poll;
            ``None`` where this process leads. It is ``None`` itself where no other process ever leads.
    """

    forward: Callable[..., Any] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, as far as it knows: it holds the devices and channels."""
        return True

    def join(self, participant: Participant, clock: Clock) -> None:  # noqa: ARG002 - the clock is for others
        """Take part with a server whose parts are made."""
        self._participant = participant

    def start(self) -> None:
        """Have the server lead, unless another process does.

        Raises:
            DatabaseError: The database does not answer any more.
        """
        self._participant.begin_to_lead()

    def answer_with(self, app: Any) -> None:
        """Answer requests of other processes with a WSGI app whenever this process leads."""

    def is_alive(self, process_id: str) -> bool:  # noqa: ARG002 - there is no other
        """Whether another process still is there."""
        return False

    def stop(self) -> None:
        """Take part no more; until it is closed no other process takes over."""

    def close(self) -> None:
        """Let another process take over."""
