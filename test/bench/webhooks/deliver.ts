import { setTimeout as sleep } from "node:timers/promises";
import { openLine } from "../proxy-load.ts";
import { cpuSeconds } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { delivered } from "./application.ts";
import { fanOut, type WebhooksPart } from "./receiver.ts";
import { notification, portOf, send } from "./sending.ts";

const perRound = 4_000;

/** One notification that matches a thousand connections. */
export const fan: WebhooksPart = async ([receiver], rounds) => {
  const { application, paths } = receiver;
  const table = createTable(["acknowledged ms", "all delivered ms", "delivered/s"]);
  const line = await openLine(portOf(receiver));
  for (let round = 0; round < rounds * 2; round += 1) {
    const before = (await application.say()).got["/fast"] ?? 0;
    const since = performance.timeOrigin + performance.now();
    await line.ask(notification(paths.fast, "many"));
    const acknowledged = performance.timeOrigin + performance.now() - since;
    const took = (await delivered(application, before + fanOut)) - since;
    if (round >= rounds) table.note("one URI, 1,000 connections", [acknowledged, took, (fanOut / took) * 1_000]);
  }
  line.socket.destroy();
  say("\nfan-out:");
  say(table.text({ peers: [], compared: "acknowledged ms" }));
};

/** Releases all waiting deliveries at once, with and without as many for an application that never answers. */
export const deliver: WebhooksPart = async ([receiver], rounds) => {
  const { application, paths, rpc, sidecar } = receiver;
  const table = createTable(["delivered/s", "CPU µs each"]);
  const count = perRound;
  for (let round = 0; round < rounds; round += 1) {
    for (const beside of round % 2 === 0 ? [false, true] : [true, false]) {
      await rpc.environments.updateEnvironment({
        environment: { name: "beside", forwardUrl: `${application.url}/gone` },
        updateMask: { paths: ["forward_url"] },
      });
      await send(receiver, paths.beside, { senders: 1, count: 1 });
      await sleep(500);
      await send(receiver, paths.beside, { senders: 64, count: count - 1 });
      if (beside) await send(receiver, paths.dead, { senders: 64, count });
      const before = (await application.say()).got["/fast"] ?? 0;
      const cpu = cpuSeconds(sidecar.pid);
      const since = performance.timeOrigin + performance.now();
      // Another address, which is not paused.
      await rpc.environments.updateEnvironment({
        environment: { name: "beside", forwardUrl: `${application.url}/fast` },
        updateMask: { paths: ["forward_url"] },
      });
      const took = (await delivered(application, before + count)) - since;
      const each = ((cpuSeconds(sidecar.pid) - cpu) / count) * 1e6;
      table.note(beside ? "beside a dead one" : "alone", [(count / took) * 1_000, each]);
      await rpc.webhooks.resumeDestination({ environment: "beside", url: `${application.url}/gone` });
    }
  }
  say("\ndelivered to a fast application:");
  say(table.text({ peers: ["alone"], compared: "delivered/s" }));
};

const say = (line: string) => process.stdout.write(`${line}\n`);
