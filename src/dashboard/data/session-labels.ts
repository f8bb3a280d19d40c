import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { accessSessions } from "../state/clients.ts";
import { may } from "../state/session.ts";

/** Labels of access sessions by environment and ID, shared by all pages. Empty: none, or the session is forgotten. */
const labels = signal<ReadonlyMap<string, string>>(new Map());
const asked = new Set<string>();

const nameOf = (environment: string, id: string): string => `${environment}\0${id}`;

async function ask(environment: string, id: string): Promise<void> {
  const name = nameOf(environment, id);
  if (asked.has(name)) return;
  asked.add(name);
  try {
    const { session } = await accessSessions.getAccessSession({ environment, id });
    labels.value = new Map(labels.peek()).set(name, session?.label ?? "");
  } catch {
    // Sessions are forgotten 7 days after their end. The page shows the ID.
    asked.delete(name);
  }
}

/** The name of a session without a label. */
export const unlabelled = (id: string): string => `Session ${id.slice(0, 8)}…`;

/** Returns the label of a session, or the beginning of its ID while no label is known. */
export const sessionName = (environment: string, id: string): string =>
  labels.value.get(nameOf(environment, id)) || unlabelled(id);

/** Reads the labels of the sessions that a page shows: at most one page of a list. */
export function useSessionLabels(environment: string, ids: readonly string[]): void {
  const wanted = [...new Set(ids)].filter((id) => id !== "");
  useEffect(() => {
    if (!may(Scope.CONNECTIONS_READ)) return;
    for (const id of wanted) void ask(environment, id);
  }, [environment, wanted.join()]);
}
