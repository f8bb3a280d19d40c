import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { Connection, ConnectionRef } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Code } from "../../../components/code.tsx";
import { Field } from "../../../components/field.tsx";
import { Section } from "../../../components/page.tsx";
import { FaultNotice } from "../../../components/states.tsx";
import { useAct } from "../../../data/act.ts";
import { useDraft } from "../../../data/draft.ts";
import { connections } from "../../../state/clients.ts";
import { faultOf } from "../../../state/fault.ts";
import { ConflictTable } from "./conflict-table.tsx";
import { mergeJson } from "./json-merge.ts";

interface EditorProps {
  readonly connection: Connection;
  readonly onChange: () => void;
}

export const MetadataEditor = (props: EditorProps) => (
  <JsonEditor
    {...props}
    title="Metadata"
    none="No metadata"
    partOf={({ metadata = {} }) => metadata}
    save={(ref, metadata, expectedRevision) =>
      connections.updateMetadata({ ref, metadata, replace: true, expectedRevision })
    }
  />
);

export const ConfigEditor = (props: EditorProps) => (
  <JsonEditor
    {...props}
    title="Configuration"
    none="No values"
    partOf={({ connectionConfig = {} }) => connectionConfig}
    save={(ref, connectionConfig, expectedRevision) =>
      connections.updateConnection({
        connection: { ref, connectionConfig },
        updateMask: { paths: ["connection_config"] },
        expectedRevision,
      })
    }
  />
);

interface JsonEditorProps extends EditorProps {
  readonly title: string;
  readonly none: string;
  readonly partOf: (connection: Connection) => JsonObject;
  readonly save: (ref: ConnectionRef, value: JsonObject, expectedRevision: bigint) => Promise<unknown>;
}

/** What a person is editing. */
interface JsonDraft {
  readonly text: string;
  /** The value and the revision that the edit began from. */
  readonly base: JsonObject;
  /** A number of 64 bits. */
  readonly revision: string;
  /** The value that someone else has stored meanwhile. */
  readonly theirs?: JsonObject;
  readonly takesTheirs: readonly string[];
}

const pretty = (value: JsonValue) => JSON.stringify(value, undefined, 2);

/** A JSON object of the connection. A change by someone else meanwhile is merged, or shown where it disagrees. */
function JsonEditor({ connection, onChange, title, none, partOf, save }: JsonEditorProps) {
  const { environment = "", integration = "", id = "" } = connection.ref ?? {};
  const { value: draft } = useDraft<JsonDraft | null>(`${title} ${environment}/${integration}/${id}`, null);
  const act = useAct({ isQuiet: true });
  const stored = partOf(connection);

  async function store(ref: ConnectionRef, { base, text, theirs, takesTheirs, revision }: JsonDraft): Promise<void> {
    const mine = parseObject(text);
    const { merged } = mergeJson({ base, mine, theirs: theirs ?? base, takesTheirs });
    try {
      await save(ref, merged, BigInt(revision));
    } catch (error) {
      if (faultOf(error).code !== "conflict") throw error;
      const { connection: latest } = await connections.getConnection({ ref });
      if (latest === undefined) throw error;
      const next = { text, base, revision: String(latest.revision), theirs: partOf(latest), takesTheirs: [] };
      const { conflicts } = mergeJson({ ...next, mine });
      draft.value = next;
      // Where the two changes do not meet, both are kept without a question.
      if (conflicts.length > 0) return;
      return store(ref, next);
    }
    draft.value = null;
    onChange();
  }

  const { value } = draft;
  if (value === null) {
    return (
      <Section
        title={title}
        actions={
          <Button
            isSmall
            needs={Scope.CONNECTIONS_WRITE}
            label={`Edit ${title.toLowerCase()}`}
            onClick={() => {
              act.forget();
              draft.value = {
                text: pretty(stored),
                base: stored,
                revision: String(connection.revision),
                takesTheirs: [],
              };
            }}
          >
            Edit
          </Button>
        }
      >
        {Object.keys(stored).length === 0 ? (
          <span class="quiet">{none}</span>
        ) : (
          <Code text={pretty(stored)} label={title.toLowerCase()} />
        )}
      </Section>
    );
  }
  const problem = problemIn(value.text);
  const conflicts =
    value.theirs === undefined || problem !== undefined
      ? []
      : mergeJson({ ...value, theirs: value.theirs, mine: parseObject(value.text) }).conflicts;
  return (
    <Section title={title}>
      <Field
        label={`${title} as a JSON object`}
        value={value.text}
        onInput={(text) => (draft.value = { ...value, text })}
        rows={Math.min(20, Math.max(5, value.text.split("\n").length + 1))}
        problem={problem}
        isCode
        isFocused
      />
      <ConflictTable
        conflicts={conflicts}
        takesTheirs={value.takesTheirs}
        onChange={(takesTheirs) => (draft.value = { ...value, takesTheirs })}
      />
      {act.fault !== undefined && <FaultNotice fault={act.fault} />}
      <div class="form-actions">
        <Button
          isSmall
          isBusy={act.isBusy}
          isDisabled={problem !== undefined}
          onClick={() =>
            void act.run(async () => {
              if (connection.ref !== undefined) await store(connection.ref, value);
            })
          }
        >
          {conflicts.length > 0 ? "Save merged" : `Save ${title.toLowerCase()}`}
        </Button>
        <Button isSmall onClick={() => (draft.value = null)}>
          Cancel
        </Button>
      </div>
    </Section>
  );
}

function parseObject(text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("not a JSON object");
  return value as JsonObject;
}

function problemIn(text: string): string | undefined {
  try {
    parseObject(text);
    return undefined;
  } catch (error) {
    return error instanceof SyntaxError ? `This is not JSON: ${error.message}.` : "This must be a JSON object: { … }.";
  }
}
