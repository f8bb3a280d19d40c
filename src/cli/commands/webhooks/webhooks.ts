import type { Command } from "commander";
import type { Act } from "../../session.ts";
import { addAssign } from "./assign.ts";
import { addCancel } from "./cancel.ts";
import { addDestinations } from "./destinations.ts";
import { addForwards } from "./forwards.ts";
import { addNotifications } from "./notifications.ts";
import { addReplay } from "./replay.ts";
import { addTail } from "./tail.ts";
import { addTrials } from "./trials.ts";

/** Adds the `webhooks` commands. */
export function addWebhooks(program: Command, act: Act): void {
  const group = program
    .command("webhooks")
    .summary("show received webhooks and their deliveries (forwards), and replay them");
  addNotifications(group, act);
  addForwards(group, act);
  addReplay(group, act);
  addCancel(group, act);
  addAssign(group, act);
  addDestinations(group, act);
  addTrials(group, act);
  addTail(group, act);
}
