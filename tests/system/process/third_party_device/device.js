// A device of coap-node. It reads a command per line, and writes a line with each result.
"use strict";
const readline = require("node:readline");
const SmartObject = require("smartobject");
const CoapNode = require("coap-node");

const [name, port] = process.argv.slice(2);
const report = (command) => (error, response) => console.log(`${command} ${error ? error.message : response.status}`);

const objects = new SmartObject();
const state = { on: false };
objects.init("temperature", 0, {
  sensorValue: 21,
  units: "Cel",
  resetMinMaxMeaValues: {
    exec: (done) => {
      console.log("executed");
      done(null, "");
    },
  },
});
objects.init("lightCtrl", 0, {
  onOff: {
    read: (done) => done(null, state.on),
    write: (value, done) => {
      state.on = value;
      done(null, value);
    },
  },
});

const device = new CoapNode(name, objects, { lifetime: 300 });
const commands = {
  register: () => device.register("127.0.0.1", Number(port), report("register")),
  update: (lifetime) => device.update({ lifetime: Number(lifetime) }, report("update")),
  set: (value) => {
    objects.set("temperature", 0, "sensorValue", Number(value));
    // A read sends the notification of an observed resource.
    objects.read("temperature", 0, "sensorValue", () => console.log("set"));
  },
  leave: () => device.deregister(report("leave")),
};
readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [command, argument] = line.split(" ");
    commands[command](argument);
  })
  .on("close", () => process.exit());
