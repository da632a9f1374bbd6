"""Saved plans: ``client.plans`` of an asynchronous client."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from mirror_sdk._run_in_thread import import_in_thread, run_in_thread
from mirror_sdk.client_groups.async_planner import AsyncPlanner
from mirror_sdk.client_groups.base import AsyncClientGroup

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.plan import AsyncPlan


class AsyncPlans(AsyncClientGroup):
    """Saved plans: ``client.plans`` of an asynchronous client.

    ``client.plan(writes)`` makes a new plan, and its method ``save(path)`` saves it. ``client.plans.load(path)`` loads
    it again.
    """

    _expression = "client.plans"

    async def load(self, path: str | PathLike[str]) -> AsyncPlan:
        """Load a plan that ``plan.save()`` saved, so that you can apply it with this client.

        This method sends no writes. The plan may already have been applied in part before it was saved. Its ``apply()``
        then searches the entire notification log that the service still stores for the responses to the earlier writes.

        Raises:
            ImportError: pandas is not installed.
            OSError: The file cannot be read.
            InvalidValue: The file does not contain a plan, or the plan is for another service.

        >>> (await client.plan([(light, "/3311/0/5851", 40)])).save(folder / "plan.json")
        >>> again = await client.plans.load(folder / "plan.json")
        >>> (await again.apply())["status"].tolist()
        ['success']
        """
        await import_in_thread("mirror_sdk.plan", "mirror_sdk.plan.saved_plan")
        from mirror_sdk.plan import AsyncPlan
        from mirror_sdk.plan.saved_plan import load

        planned, accepted = await run_in_thread(load, path, self._session.base_url)
        planner = AsyncPlanner(self._session)
        return AsyncPlan(
            planned,
            accepted=accepted,
            server=self._session.base_url,
            # Created only when the plan is applied, because the position would be outdated by then.
            write=partial(
                planner.write_again, cache(lambda: self._session.new_router(self._session.new_log_reader(0)))
            ),
            read_state=planner.read_state,
            make_plan=planner.plan_of,
        )
