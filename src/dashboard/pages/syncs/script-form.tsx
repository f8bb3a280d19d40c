import type { JsonValue } from "@bufbuild/protobuf";
import { fromJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Script } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Field } from "../../components/field.tsx";
import { useDraft } from "../../data/draft.ts";
import { connections } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";

/** What a script runs with. */
export interface ScriptForm {
  readonly connection: string;
  readonly input: string;
  setConnection(text: string): void;
  setInput(text: string): void;
  /** Undefined if the input is no JSON; then `inputProblem` is set. */
  readonly value: { readonly input?: Value } | undefined;
  readonly inputProblem: string | undefined;
}

/** Begins with a connection of the integration. */
export function useScriptForm({ integration, name }: Pick<Script, "integration" | "name">): ScriptForm {
  const connection = useSignal("");
  const draft = useDraft(`script-input ${integration} ${name}`, "");
  const input = draft.value;
  const environment = environmentName.value;
  useEffect(() => {
    const over = new AbortController();
    const request = { environment, pageSize: 1, filter: { integrations: [integration] } };
    connections.listConnections(request, { signal: over.signal }).then(
      (page) => {
        if (connection.peek() === "") connection.value = page.connections[0]?.ref?.id ?? "";
      },
      // The field stays empty for the person to fill.
      () => {},
    );
    return () => over.abort();
  }, [environment, integration]);
  const parsed = parseInput(input.value);
  return {
    connection: connection.value,
    input: input.value,
    setConnection: (text) => (connection.value = text),
    setInput: (text) => (input.value = text),
    value: parsed,
    inputProblem: parsed === undefined ? "This is not JSON yet." : undefined,
  };
}

function parseInput(text: string): { readonly input?: Value } | undefined {
  if (text.trim() === "") return {};
  try {
    return { input: fromJson(ValueSchema, JSON.parse(text) as JsonValue) };
  } catch {
    /* Not JSON. */
    return undefined;
  }
}

export const ConnectionField = ({ form, help }: { readonly form: ScriptForm; readonly help?: string }) => (
  <Field label="Connection" value={form.connection} onInput={form.setConnection} help={help} isFocused />
);

export const InputField = ({ form, label = "Input" }: { readonly form: ScriptForm; readonly label?: string }) => (
  <Field
    label={label}
    value={form.input}
    onInput={form.setInput}
    problem={form.inputProblem}
    help="JSON, or nothing."
    rows={5}
    isCode
  />
);
