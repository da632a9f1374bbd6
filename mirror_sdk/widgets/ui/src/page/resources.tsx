/** The resources of a device, grouped by object instance. */

import { useSignal } from "@preact/signals";
import { Button } from "../controls";
import { Empty } from "../empty";
import { Icon } from "../icons";
import { StatusText } from "../status";
import { useStore } from "./context";
import { type Mark, isReportedSince, markOf, whyOf } from "./marks";
import { visible } from "./names";
import { declaredFor, labelOf, mayBe, objectName, resourceName, unitOf } from "./objects";
import { Age, Instant, Value } from "./parts";
import { ResourcePanel } from "./resource_panel";
import type { Device, Resource } from "./wire";

/** The status word of each mark that is shown. */
const STATUS: Partial<Record<Mark, string>> = {
  pending: "Pending",
  failed: "Failed",
  reverted: "Drifting",
  unconfirmed: "Unconfirmed",
  unreported: "Never reported",
  acknowledged: "Failed",
};

interface Group {
  key: string;
  title: string;
  resources: Resource[];
}

export function Resources({ device }: { device: Device }) {
  const store = useStore();
  const object = store.object.value;
  const opened = store.opened.value;
  const shown = useSignal<{ id: string; isEmptyShown: boolean } | null>(null);
  if (!object) return <Empty kind="loading" title={`Reading ${store.fleet.value.nameOf(device.id)} …`} />;
  const { resources } = object;
  if (!resources.length) return <Empty title="No resources">The device has registered none.</Empty>;
  // Of a device without any value, everything is shown from the beginning.
  if (shown.value?.id !== device.id) shown.value = { id: device.id, isEmptyShown: resources.every((each) => isEmpty(each) || isAction(each)) };
  const { isEmptyShown } = shown.value;
  const listed = resources.filter((each) => isEmptyShown || !isEmpty(each) || each.resource_path === opened);
  const hidden = resources.filter(isEmpty).length;
  const stale = store.fleet.value.stalePaths(device.id);
  return (
    <div class="page-resources">
      {groupsOf(listed).map(({ key, title, resources: members }) => (
        <section key={key} class="page-object" aria-label={title}>
          <h3>
            {title} <span class="mirror-dim">{key}</span>
          </h3>
          <ul>
            {members.map((resource) => (
              <ResourceItem
                key={resource.resource_path}
                resource={resource}
                resources={resources}
                isStale={stale.has(resource.resource_path)}
              />
            ))}
          </ul>
        </section>
      ))}
      {hidden > 0 && hidden < resources.length && (
        <p class="page-more">
          <Button
            label={isEmptyShown ? "Hide resources without a value" : `Show ${hidden} without a value`}
            onClick={() => (shown.value = { id: device.id, isEmptyShown: !isEmptyShown })}
          />
        </p>
      )}
    </div>
  );
}

/** Whether a resource has nothing to show. One that can only be executed is an action, not a value. */
function isEmpty(resource: Resource): boolean {
  const { reported, desired } = resource;
  return reported.value === undefined && desired.status === undefined && !isAction(resource);
}

const isAction = ({ resource_path: path }: Resource): boolean => declaredFor(path)?.access === "E";

function groupsOf(resources: readonly Resource[]): Group[] {
  const groups = new Map<string, Group>();
  const instances = new Map<string, Set<string>>();
  for (const resource of resources) {
    const [, object = "", instance = ""] = resource.resource_path.split("/");
    const key = `/${object}/${instance}`;
    const group = groups.get(key) ?? { key, title: objectName(object), resources: [] };
    group.resources.push(resource);
    groups.set(key, group);
    instances.set(object, (instances.get(object) ?? new Set()).add(instance));
  }
  for (const group of groups.values()) {
    const [, object = "", instance = ""] = group.key.split("/");
    if ((instances.get(object)?.size ?? 0) > 1) group.title += ` ${instance}`;
  }
  return [...groups.values()];
}

interface ItemProps {
  resource: Resource;
  resources: readonly Resource[];
  isStale: boolean;
}

function ResourceItem({ resource, resources, isStale }: ItemProps) {
  const store = useStore();
  const { resource_path: path, reported, desired, subscribed } = resource;
  const isOpen = store.opened.value === path;
  const unit = visible(unitOf(path, resources));
  const mark = markOf(resource);
  const status = STATUS[mark];
  const label = labelOf(path) || path;
  return (
    <li class={isOpen ? "page-resource page-open" : "page-resource"} data-path={path} data-mark={mark}>
      <div class="page-resource-row">
        <button
          type="button"
          class="page-resource-name"
          aria-expanded={isOpen}
          aria-label={label}
          title={`${label} ${path}`}
          onClick={() => store.open(isOpen ? null : path)}
        >
          <Icon name={isOpen ? "down" : "right"} />
          <span>{resourceName(path)}</span>
        </button>
        <span class="page-resource-path mirror-dim">
          {path}
          {subscribed && <span class="page-subscribed" title="The mirror receives each change of this value"> subscribed</span>}
        </span>
        <span class="page-resource-value">
          {isAction(resource) ? <span class="mirror-dim">executable</span> : <Value payload={reported.value} path={path} unit={unit} contentType={reported.content_type} />}
        </span>
        <span class="page-resource-age mirror-dim">
          <Age at={reported.reported_at} />
        </span>
      </div>
      {status && (
        <p class="page-desired">
          <StatusText word={status} text={mark === "acknowledged" ? "Failed, acknowledged" : status} />
          <span class="page-desired-value">
            desired <Value payload={desired.value} path={path} unit={unit} contentType={desired.content_type} />
          </span>
          <span class="mirror-dim">
            <Age at={desired.desired_at} />
          </span>
          <Why resource={resource} mark={mark} unit={unit} />
        </p>
      )}
      {/* A drift is more important than the age of a value. */}
      {isStale && !status && (
        <p class="page-desired">
          <StatusText word="Stale" />
          <span class="page-why">The device has been silent for longer than its reporting interval allows.</span>
        </p>
      )}
      {isOpen && <ResourcePanel key={path} resource={resource} unit={unit} />}
    </li>
  );
}

/** The reason why a write did not lead to the desired value. */
function Why({ resource, mark, unit }: { resource: Resource; mark: Mark; unit: string }) {
  const { reported, desired, resource_path: path } = resource;
  const wanted = <Value payload={desired.value} path={path} unit={unit} contentType={desired.content_type} />;
  const last = <Value payload={reported.value} path={path} unit={unit} contentType={reported.content_type} />;
  const reason = (() => {
    switch (mark) {
      case "failed":
        return <>The write of {wanted} failed: {whyOf(desired.category)}.</>;
      case "acknowledged":
        return (
          <>
            The write of {wanted} failed: {whyOf(desired.category)}. {visible(desired.acknowledged_by ?? "")} acknowledged it{" "}
            <Instant at={desired.acknowledged_at} />.
          </>
        );
      case "reverted":
        return <>The device accepted {wanted} and has reported {last} since: the value was changed at the device, or not stored.</>;
      case "unconfirmed": {
        const older = isReportedSince(reported, desired) === null ? "may be older" : "is older";
        return <>The device accepted {wanted}; the last report, {last}, {older}. A read confirms it.</>;
      }
      case "unreported":
        return <>The device accepted {wanted} and has never reported a value here.{mayBe("R", path) && " A read confirms it."}</>;
      default:
        return null;
    }
  })();
  return reason && <span class="page-why">{reason}</span>;
}
