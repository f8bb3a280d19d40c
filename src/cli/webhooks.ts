import type { Command } from "commander";
import type { Act } from "./session.ts";
import { addDestinations } from "./webhook-destinations.ts";
import { addForwards } from "./webhook-forwards.ts";
import { addNotifications } from "./webhook-notifications.ts";
import { addReplay } from "./webhook-replay.ts";
import { addTail } from "./webhook-tail.ts";
import { addTrials } from "./webhook-trials.ts";

/** The verbs over what providers sent, and what became of it. */
export function addWebhooks(program: Command, act: Act): void {
  const group = program.command("webhooks").summary("what providers sent, where it went, and sending it again");
  addNotifications(group, act);
  addForwards(group, act);
  addReplay(group, act);
  addDestinations(group, act);
  addTrials(group, act);
  addTail(group, act);
}
