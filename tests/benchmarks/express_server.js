// The reads of the device object, key check included, as a server of Express and better-sqlite3 does them.
// node express_server.js NODE_MODULES DATABASE PORT
const { createRequire } = require("node:module");
const { createHash, timingSafeEqual } = require("node:crypto");

const [modules, file, port] = process.argv.slice(2);
const load = createRequire(modules + "/");
const express = load("express");
const Database = load("better-sqlite3");

const database = new Database(file, { readonly: true });
const findKey = database.prepare("SELECT secret_hash, scopes, revoked_at FROM access_keys WHERE key_id = ?");
const findDevice = database.prepare("SELECT device_id, endpoint_name, updated_at FROM devices WHERE device_id = ?");
const findResources = database.prepare("SELECT * FROM resources WHERE device_id = ?");

const time = (instant) => new Date(instant).toISOString();

function isAllowed(header) {
  const parts = /^bearer +ak_([0-9a-f]{16})_([\w-]{43}) *$/i.exec(header ?? "");
  const key = parts && findKey.get(parts[1]);
  if (!key || key.revoked_at !== null) return false;
  return timingSafeEqual(key.secret_hash, createHash("sha256").update(parts[2]).digest())
    && key.scopes.split(" ").includes("read");
}

function reported(row) {
  if (row.reported_value === null) return {};
  const value = {
    value: row.reported_value.toString("base64"),
    content_type: row.reported_content_type,
    reported_at: time(row.reported_at),
  };
  if (row.reported_expires_at !== null) value.expires_at = time(row.reported_expires_at);
  if (row.reported_origin !== null) value.origin = row.reported_origin;
  return value;
}

function desired(row) {
  if (row.desired_value === null) return {};
  const value = {
    value: row.desired_value.toString("base64"),
    content_type: row.desired_content_type,
    status: row.desired_status,
    desired_at: time(row.desired_at),
  };
  if (row.desired_updated_at !== null) value.status_updated_at = time(row.desired_updated_at);
  return { ...value, requested_at: time(row.requested_at) };
}

function newest(rows, column) {
  const instants = rows.map((row) => row[column]).filter((instant) => instant !== null);
  return instants.length ? time(Math.max(...instants)) : undefined;
}

const app = express();
app.disable("x-powered-by");
app.get("/", (_request, response) => response.send("ready"));
app.get("/v3/devices/:id/echo", (request, response) => {
  if (!isAllowed(request.get("Authorization"))) return response.status(401).json({ code: 401 });
  const device = findDevice.get(request.params.id);
  if (!device) return response.status(404).json({ code: 404 });
  const rows = findResources.all(request.params.id);
  response.json({
    object: "device-echo",
    created_at: time(Date.now()),
    device_id: device.device_id,
    endpoint_name: device.endpoint_name,
    updated_at: time(device.updated_at),
    last_reported_at: newest(rows, "reported_at"),
    last_desired_at: newest(rows, "desired_at"),
    resources: rows.map((row) => ({
      resource_path: row.path,
      subscribed: Boolean(row.subscribed),
      ...(row.subscribed && row.subscribed_at !== null ? { subscribed_at: time(row.subscribed_at) } : {}),
      reported: reported(row),
      desired: desired(row),
    })),
  });
});
app.listen(Number(port), "127.0.0.1");
