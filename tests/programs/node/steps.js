// Helpers of the drivers in JavaScript: steps, printed as lines of JSON, and the simulator.
"use strict";

const http = require("http");
const { isDeepStrictEqual } = require("util");

const host = process.env.API_HOST;
const key = process.env.API_KEY;
const patience = 30000;

const printLine = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// An expected error whose text contains this part.
class ExpectedError {
  constructor(part) {
    this.part = part;
  }
}

// Runs a call, compares its outcome and returns it, or undefined if the step failed.
async function step(call, act, expected) {
  let outcome, passed;
  const expectedText = expected instanceof ExpectedError ? expected.part : expected;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no response within ${patience} ms`)), patience);
  });
  try {
    outcome = await Promise.race([act(), late]);
    passed = isDeepStrictEqual(outcome, expected);
  } catch (error) {
    const details = error && error.details && JSON.stringify(error.details);
    outcome = [error, error && error.code, details].filter(Boolean).join(" ");
    passed = expected instanceof ExpectedError && outcome.includes(expected.part);
  }
  clearTimeout(timer);
  printLine({ call, passed, outcome: String(JSON.stringify(outcome)).slice(0, 600), expected: String(JSON.stringify(expectedText)) });
  return passed ? outcome : undefined;
}

// Reads until the result is true, and returns it.
async function until(read) {
  const endAt = Date.now() + patience;
  let found;
  while (!(found = await read()) && Date.now() < endAt) await new Promise((go) => setTimeout(go, 20));
  return found;
}

// Returns the functions of a class without those that it inherits.
function functionsOf(owner, name) {
  return Object.getOwnPropertyNames(owner.prototype)
    .filter((each) => !each.startsWith("_") && each !== "constructor")
    .filter((each) => typeof Object.getOwnPropertyDescriptor(owner.prototype, each).value === "function")
    .map((each) => `${name}.${each}`);
}

// Sends a request without the library, to act for a device.
async function send(method, path, body) {
  const response = await fetch(host + path, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

const simulator = (method, path, body) => send(method, `/sim/v1${path}`, body);

// Returns a map of endpoint names and ids.
async function deviceIds() {
  const listed = (await simulator("GET", "/devices")).data;
  return Object.fromEntries(listed.map((device) => [device.endpoint_name, device.id]));
}

// Receives the requests of a webhook.
async function receiver(take) {
  const server = http.createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      response.writeHead(204).end();
      take(JSON.parse(text));
    });
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  return `http://127.0.0.1:${server.address().port}/callback`;
}

// Runs the steps and exits, even if a library left timers running.
function run(steps) {
  steps().then(
    () => {
      printLine({ finished: true });
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { ExpectedError, simulator, deviceIds, functionsOf, host, key, receiver, run, send, step, printLine, until };
module.exports.paths = { temperature: "/3303/0/5700", dimmer: "/3311/0/5851", reboot: "/3/0/4" };
