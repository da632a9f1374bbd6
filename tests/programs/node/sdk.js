// The vendor's SDK for JavaScript, unmodified: its public calls, one after the other.
"use strict";

const sdk = require("mbed-cloud-sdk");
const { ExpectedError, simulator, deviceIds, functionsOf, host, key, paths, receiver, run, step, printLine, until } =
  require("./steps");

const rules = [{ deviceId: "*", deviceType: "Light", resourcePaths: ["/3311/0/5851"] }];
const names = (listed) => listed.data.map((device) => device.name).sort();

function publicCalls() {
  const owners = Object.keys(sdk).filter((name) => /(Api|Repository)$/.test(name) && name !== "Repository");
  const found = owners.flatMap((name) => functionsOf(sdk[name], name));
  const observed = functionsOf(new sdk.ConnectApi({ apiKey: key, host }).subscribe.constructor, "ConnectApi.subscribe");
  // Programs do not call these functions, notifications do.
  return [...found, "Client.CallApi", ...observed.filter((call) => !/\.(notify|startNotifications)/.test(call))];
}

async function devices(connect, directory, ids) {
  const light = ids["light-01"];
  const lights = { deviceType: { $eq: "Light" } };
  await step("ConnectApi.listConnectedDevices", async () => names(await connect.listConnectedDevices()), Object.keys(ids).sort());
  await step(
    "ConnectApi.listConnectedDevices",
    async () => names(await connect.listConnectedDevices({ filter: { ...lights } })),
    ["light-01", "light-02"],
  );
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => names(await directory.listDevices({ filter: { name: "light-01" } })),
    ["light-01"],
  );
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => names(await directory.listDevices({ filter: { alias: { $in: ["light-01", "light-02"] } } })),
    ["light-01", "light-02"],
  );
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => {
      const page = await directory.listDevices({ limit: 5, order: "DESC", include: ["totalCount"] });
      return [page.data.map((device) => device.id), page.hasMore, page.totalCount];
    },
    [Object.values(ids).sort().reverse().slice(0, 5), true, 12],
  );
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => names(await directory.listDevices({ filter: { firmwareChecksum: "x" } })),
    [],
  );
  await step("DeviceDirectoryApi.getDevice", async () => (await directory.getDevice(light)).alias, "light-01");
  await step("DeviceDirectoryApi.getDevice", () => directory.getDevice("0".repeat(32)), null);
  await step("ConnectApi.listResources", async () => (await connect.listResources(light)).at(-1).path, "/3311/0/5852");
  await step("ConnectApi.getResource", async () => (await connect.getResource(light, paths.dimmer)).observable, true);
  await step("ConnectApi.getResource", () => connect.getResource(light, "/1/2/3"), new ExpectedError("not found"));
  await step("ConnectApi.getLastApiMetadata", async () => (await connect.getLastApiMetadata()).method, "GET");
  await step("DeviceDirectoryApi.getLastApiMetadata", async () => (await directory.getLastApiMetadata()).method, "GET");
}

async function values(connect, ids) {
  const [station, light, thermostat] = [ids["weather-station-01"], ids["light-01"], ids["thermostat-01"]];
  const { temperature, dimmer, reboot } = paths;
  const read = async (device, path) => String(await connect.getResourceValue(device, path, 20000));
  await step("ConnectApi.startNotifications", () => connect.startNotifications({ interval: 20 }), null);
  await step("ConnectApi.getResourceValue", () => read(station, temperature), "-0.5");
  await step("ConnectApi.getResourceValue", () => read(station, "/1/2/3"), new ExpectedError("400"));
  await step("ConnectApi.setResourceValue", () => connect.setResourceValue(light, dimmer, "43", 20000), null);
  await step("ConnectApi.getResourceValue", () => read(light, dimmer), "43");
  await step(
    "ConnectApi.setResourceValue",
    () => connect.setResourceValue(station, temperature, "43", 20000),
    new ExpectedError("400"),
  );
  await step("ConnectApi.executeResource", () => connect.executeResource(light, reboot, null, 20000), null);
  await step(
    "ConnectApi.executeResource",
    () => connect.executeResource(light, dimmer, null, 20000),
    new ExpectedError("400"),
  );

  const told = [];
  await step(
    "ConnectApi.addResourceSubscription",
    async () => {
      await connect.addResourceSubscription(station, temperature, (_, value) => told.push(value));
      await simulator("PUT", `/devices/${station}/resources${temperature}`, { value: "1.5" });
      return until(() => told.includes("1.5"));
    },
    true,
  );
  await step("ConnectApi.getResourceSubscription", () => connect.getResourceSubscription(station, temperature), true);
  await step("ConnectApi.listDeviceSubscriptions", () => connect.listDeviceSubscriptions(station), temperature);
  await step(
    "ConnectApi.deleteResourceSubscription",
    () => connect.deleteResourceSubscription(station, temperature),
    null,
  );
  await step("ConnectApi.getResourceSubscription", () => connect.getResourceSubscription(station, temperature), false);
  await connect.addResourceSubscription(thermostat, temperature);
  await step(
    "ConnectApi.deleteDeviceSubscriptions",
    async () => {
      await connect.deleteDeviceSubscriptions(thermostat);
      return connect.getResourceSubscription(thermostat, temperature);
    },
    false,
  );
  await connect.addResourceSubscription(thermostat, temperature);
  await step(
    "ConnectApi.deleteSubscriptions",
    async () => {
      await connect.deleteSubscriptions();
      return connect.getResourceSubscription(thermostat, temperature);
    },
    false,
  );
  await step(
    "ConnectApi.updatePresubscriptions",
    async () => Boolean(await connect.updatePresubscriptions(rules)) || true,
    true,
  );
  await step("ConnectApi.listPresubscriptions", () => connect.listPresubscriptions(), rules);
  await step(
    "ConnectApi.deletePresubscriptions",
    async () => {
      await connect.deletePresubscriptions();
      return connect.listPresubscriptions();
    },
    [],
  );

  // Presubscriptions again, by the part that the SDK calls subscribe.
  const everything = connect.subscribe.allNotifications();
  const changes = connect.subscribe.deviceStateChanges({ id: station, event: "registration" });
  await simulator("POST", `/devices/${station}/registration`);
  await step("ConnectApi.subscribe.deviceStateChanges", async () => (await changes.once()).event, "registration");
  await step(
    "ConnectApi.subscribe.allNotifications",
    () => until(() => everything.getNotificationQueue().some((message) => message.registrations)),
    true,
  );
  const observer = await connect.subscribe.resourceValues({ deviceId: thermostat, resourcePaths: [temperature] });
  await simulator("PUT", `/devices/${thermostat}/resources${temperature}`, { value: "17.25" });
  const isNew = (each) => each.deviceId === thermostat && each.payload === "17.25";
  await step(
    "ConnectApi.subscribe.resourceValues",
    () => until(() => observer.getNotificationQueue().some(isNew)),
    true,
  );
  await connect.deletePresubscriptions();
  await step("ConnectApi.stopNotifications", () => connect.stopNotifications(), null);
}

// Called before any poll, because the SDK forgets its open poll and then cannot end it.
async function webhook(station) {
  const hooked = new sdk.ConnectApi({ apiKey: key, host, handleNotifications: true });
  const url = await receiver((message) => hooked.notify(message));
  await step("ConnectApi.updateWebhook", () => hooked.updateWebhook(url, { "X-Token": "abc" }), null);
  await step("ConnectApi.getWebhook", async () => (await hooked.getWebhook()).url, url);
  const read = async () => String(await hooked.getResourceValue(station, paths.temperature, 20000));
  await step("ConnectApi.notify", read, "-0.5");
  await step("ConnectApi.deleteWebhook", () => hooked.deleteWebhook(), null);
  await step("ConnectApi.getWebhook", () => hooked.getWebhook(), null);
}

async function directoryAtWork(directory, ids) {
  const light = ids["light-01"];
  const contact = ids["door-contact-02"];
  await step(
    "DeviceDirectoryApi.updateDevice",
    async () => {
      const said = { id: light, name: "Desk", description: "By the window", customAttributes: { floor: "2" } };
      const device = await directory.updateDevice(said);
      return [device.name, device.description, device.customAttributes];
    },
    ["Desk", "By the window", { floor: "2" }],
  );
  await step(
    "DeviceDirectoryApi.updateDevice",
    async () => {
      const device = await directory.getDevice(light);
      device.name = "Shelf";
      return (await device.update()).name;
    },
    "Shelf",
  );
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => names(await directory.listDevices({ filter: { customAttributes: { floor: { $eq: "2" } } } })),
    ["Shelf"],
  );
  await step(
    "DeviceDirectoryApi.updateDevice",
    () => directory.updateDevice({ id: light, hostGateway: "gateway-01" }),
    new ExpectedError("host_gateway"),
  );
  const filter = { deviceType: { $eq: "Light" } };
  const query = await directory.addQuery({ name: "lights", filter }).catch(() => ({}));
  await step("DeviceDirectoryApi.addQuery", async () => query.filter, filter);
  await step("DeviceDirectoryApi.getQuery", async () => (await directory.getQuery(query.id)).name, "lights");
  await step("DeviceDirectoryApi.listQueries", async () => names(await directory.listQueries()), ["lights"]);
  await step(
    "DeviceDirectoryApi.listDevices",
    async () => (await directory.listDevices({ filter: query.filter })).data.length,
    2,
  );
  await step(
    "DeviceDirectoryApi.updateQuery",
    async () => (await directory.updateQuery({ id: query.id, name: "all lights", filter })).name,
    "all lights",
  );
  await step(
    "DeviceDirectoryApi.deleteQuery",
    async () => {
      await directory.deleteQuery(query.id);
      return directory.getQuery(query.id);
    },
    null,
  );
  await simulator("DELETE", `/devices/${contact}/registration`);
  await step(
    "DeviceDirectoryApi.listDeviceEvents",
    async () => {
      const listed = await directory.listDeviceEvents({ filter: { deviceId: contact }, order: "DESC" });
      return listed.data.slice(0, 2).map((event) => [event.deviceId, event.type]);
    },
    [
      [contact, "deregistration"],
      [contact, "registration"],
    ],
  );
  await step(
    "DeviceDirectoryApi.getDeviceEvent",
    async () => {
      const [first] = (await directory.listDeviceEvents({ limit: 2 })).data;
      return (await directory.getDeviceEvent(first.id)).deviceId === first.deviceId;
    },
    true,
  );
}

// The newer half of the same SDK, which always uses https.
async function foundation(ids) {
  const { client, foundation } = new sdk.SDK({ apiKey: key, host });
  const light = ids["light-01"];
  const repository = foundation().deviceRepository();
  const events = foundation().deviceEventsRepository();
  await step(
    "DeviceRepository.list",
    async () => {
      const lights = await repository.list({ filter: { endpointType: { eq: "Light" } } }).all();
      return lights.map((device) => device.endpointName).sort();
    },
    ["light-01", "light-02"],
  );
  await step("DeviceRepository.list", () => repository.list({ pageSize: 5 }).totalCount(), 12);
  await step("DeviceRepository.read", async () => (await repository.read(light)).endpointName, "light-01");
  await step(
    "DeviceRepository.update",
    async () => (await repository.update({ ...(await repository.read(light)), name: "Work" }, light)).name,
    "Work",
  );
  await step("DeviceEventsRepository.list", async () => (await events.list({ maxResults: 2 }).all()).length, 2);
  await step(
    "DeviceEventsRepository.read",
    async () => {
      const first = await events.list().first();
      return (await events.read(first.id)).deviceId === first.deviceId;
    },
    true,
  );
  const echo = { url: "/v3/devices/{id}/echo", method: "GET", pathParams: { id: light } };
  await step("Client.CallApi", async () => (await client.CallApi(echo)).endpoint_name, "light-01");
}

run(async () => {
  printLine({ calls: publicCalls() });
  const options = { apiKey: key, host };
  const connect = new sdk.ConnectApi(options);
  const directory = new sdk.DeviceDirectoryApi(options);
  const ids = await deviceIds();
  await devices(connect, directory, ids);
  await webhook(ids["weather-station-01"]);
  await values(connect, ids);
  await directoryAtWork(directory, ids);
  await foundation(ids);
});
