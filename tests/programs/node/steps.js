// What the drivers in JavaScript share: steps that are told as lines of JSON, and the simulator.
"use strict";

const http = require("http");
const { isDeepStrictEqual } = require("util");

const host = process.env.API_HOST;
const key = process.env.API_KEY;
const patience = 30000;

const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// A call that has to end with an error, in whose text this is.
class Refused {
  constructor(part) {
    this.part = part;
  }
}

// Runs a call and compares what it really gave; gives it, or undefined where it failed.
async function step(call, act, expected) {
  let outcome, passed;
  const wanted = expected instanceof Refused ? expected.part : expected;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${patience} ms`)), patience);
  });
  try {
    outcome = await Promise.race([act(), late]);
    passed = isDeepStrictEqual(outcome, expected);
  } catch (error) {
    const details = error && error.details && JSON.stringify(error.details);
    outcome = [error, error && error.code, details].filter(Boolean).join(" ");
    passed = expected instanceof Refused && outcome.includes(expected.part);
  }
  clearTimeout(timer);
  tell({ call, passed, outcome: String(JSON.stringify(outcome)).slice(0, 600), wanted: String(JSON.stringify(wanted)) });
  return passed ? outcome : undefined;
}

// Gives what is read, once that is true.
async function until(read) {
  const endAt = Date.now() + patience;
  let found;
  while (!(found = await read()) && Date.now() < endAt) await new Promise((go) => setTimeout(go, 20));
  return found;
}

// The functions that a class has of its own.
function functionsOf(owner, name) {
  return Object.getOwnPropertyNames(owner.prototype)
    .filter((each) => !each.startsWith("_") && each !== "constructor")
    .filter((each) => typeof Object.getOwnPropertyDescriptor(owner.prototype, each).value === "function")
    .map((each) => `${name}.${each}`);
}

// Sends a request by itself, as whoever plays the device's side does.
async function send(method, path, body) {
  const answer = await fetch(host + path, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

const simulator = (method, path, body) => send(method, `/sim/v1${path}`, body);

// Endpoint name -> id.
async function deviceIds() {
  const listed = (await simulator("GET", "/devices")).data;
  return Object.fromEntries(listed.map((device) => [device.endpoint_name, device.id]));
}

// Takes what a webhook brings.
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

// Runs the steps to their end; whatever timers a library left do not hold it.
function run(steps) {
  steps().then(
    () => {
      tell({ finished: true });
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { Refused, simulator, deviceIds, functionsOf, host, key, receiver, run, send, step, tell, until };
module.exports.paths = { temperature: "/3303/0/5700", dimmer: "/3311/0/5851", reboot: "/3/0/4" };
