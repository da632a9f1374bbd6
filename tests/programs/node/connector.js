// The older connector library for JavaScript, unmodified: its public calls, one after the other.
"use strict";

const Library = require("mbed-connector-api");
const { ExpectedError, simulator, deviceIds, host, key, paths, receiver, run, send, step, printLine, until } = require("./steps");

const internal = ["makeRequest", "requestCallback", "longPollRequestCallback", "asyncResponseHandler"];
const rules = [{ "endpoint-name": "*", "resource-path": ["/3303/*"] }];
const names = (listed) => listed.map((each) => each.name).sort();
const called = (call, act, expected) => step(`mbedConnectorApi.${call}`, act, expected);

run(async () => {
  const functions = Object.keys(Library.prototype).filter((each) => typeof Library.prototype[each] === "function");
  printLine({ calls: functions.filter((each) => !internal.includes(each)).map((each) => `mbedConnectorApi.${each}`) });
  const library = new Library({ accessKey: key, host });
  const ids = await deviceIds();
  const [station, light] = [ids["weather-station-01"], ids["light-01"]];
  const { temperature, dimmer, reboot } = paths;

  await called("getApiVersions", () => library.getApiVersions(), ["v2", "v3"]);
  await called("getLimits", async () => "transaction-quota" in (await library.getLimits()), true);
  await called("getEndpoints", async () => names(await library.getEndpoints()), Object.values(ids).sort());
  await called(
    "getEndpoints",
    async () => names(await library.getEndpoints({ parameters: { type: "Light" } })),
    [light, ids["light-02"]].sort(),
  );
  await called("getResources", async () => (await library.getResources(light)).at(-1).uri, "/3311/0/5852");
  await called("getResources", () => library.getResources("0".repeat(32)), new ExpectedError("404"));

  // Values, by long polling.
  const notified = [];
  const registered = [];
  library.on("notification", (notification) => notified.push(notification));
  library.on("registration", (registration) => registered.push(registration.ep));
  await called("startLongPolling", () => library.startLongPolling(), undefined);
  await called("getResourceValue", () => library.getResourceValue(station, temperature), "-0.5");
  await called("getResourceValue", () => library.getResourceValue(station, "/1/2/3"), new ExpectedError("400"));
  await called("putResourceValue", () => library.putResourceValue(light, dimmer, 42), undefined);
  await called("getResourceValue", () => library.getResourceValue(light, dimmer), "42");
  await called("putResourceValue", () => library.putResourceValue(station, temperature, 42), new ExpectedError("400"));
  await called("postResource", () => library.postResource(light, reboot, null), undefined);
  await called("postResource", () => library.postResource(light, dimmer, null), new ExpectedError("400"));

  // Subscriptions.
  await called("putResourceSubscription", () => library.putResourceSubscription(station, temperature), undefined);
  await simulator("PUT", `/devices/${station}/resources${temperature}`, { value: "1.5" });
  const isNew = (each) => each.ep === station && each.payload === "1.5";
  await called("handleNotifications", () => until(() => notified.some(isNew)), true);
  await called("getResourceSubscription", () => library.getResourceSubscription(station, temperature), true);
  await called("getEndpointSubscriptions", () => library.getEndpointSubscriptions(station), [temperature]);
  await called("deleteResourceSubscription", () => library.deleteResourceSubscription(station, temperature), undefined);
  await called("getResourceSubscription", () => library.getResourceSubscription(station, temperature), false);
  await library.putResourceSubscription(station, temperature);
  await called("deleteEndpointSubscriptions", () => library.deleteEndpointSubscriptions(station), undefined);
  await called("getEndpointSubscriptions", () => library.getEndpointSubscriptions(station), []);
  await called("putPreSubscription", () => library.putPreSubscription(rules), undefined);
  await called("getPreSubscription", () => library.getPreSubscription(), rules);
  // The library sends the request that deletes the rules.
  await called("deleteAllSubscriptions", () => library.deleteAllSubscriptions(), undefined);
  await called("getPreSubscription", () => library.getPreSubscription(), []);
  await simulator("POST", `/devices/${station}/registration`);
  await called("handleNotifications", () => until(() => registered.includes(station)), true);
  await called("stopLongPolling", async () => library.stopLongPolling(), undefined);

  // Values, by a callback.
  await send("DELETE", "/v2/notification/pull");
  const url = await receiver((message) => library.handleNotifications(message));
  await called("putCallback", () => library.putCallback({ url, headers: { "X-Token": "abc" } }), undefined);
  await called("getCallback", async () => (await library.getCallback()).url, url);
  await called("handleNotifications", () => library.getResourceValue(light, dimmer), "42");
  await called("deleteCallback", () => library.deleteCallback(), undefined);
  await called("getCallback", () => library.getCallback(), new ExpectedError("404"));
});
