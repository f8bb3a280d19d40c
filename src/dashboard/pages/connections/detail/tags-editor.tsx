import { useSignal } from "@preact/signals";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Field } from "../../../components/field.tsx";
import { Section } from "../../../components/page.tsx";
import { FaultNotice } from "../../../components/states.tsx";
import { useAct } from "../../../data/act.ts";
import { connections } from "../../../state/clients.ts";
import { linkTo } from "../../../state/router.ts";
import { tagOf } from "../connection-filters.tsx";

interface TagsEditorProps {
  readonly connection: Connection;
  readonly onChange: () => void;
}

/** The tags as links to connections with the same tag, and as lines to edit. */
export function TagsEditor({ connection, onChange }: TagsEditorProps) {
  const text = useSignal<string | undefined>(undefined);
  const act = useAct({ isQuiet: true });
  const entries = Object.entries(connection.tags);
  const lines = entries.map(([key, value]) => `${key}=${value}`);
  async function save() {
    const { ref } = connection;
    if (ref === undefined || text.value === undefined) return;
    const tags = Object.fromEntries(text.value.split("\n").flatMap((line) => tagOf(line.trim())));
    const request = { connection: { ref, tags }, updateMask: { paths: ["tags"] } };
    await connections.updateConnection({ ...request, expectedRevision: connection.revision });
    text.value = undefined;
    onChange();
  }
  if (text.value !== undefined) {
    return (
      <Section title="Tags">
        <Field
          label="One tag a line, as key=value"
          value={text.value}
          onInput={(value) => (text.value = value)}
          rows={Math.max(3, lines.length + 1)}
          isCode
          isFocused
        />
        {act.fault !== undefined && <FaultNotice fault={act.fault} />}
        <div class="form-actions">
          <Button isSmall isBusy={act.isBusy} onClick={() => void act.run(save, "Saved the tags")}>
            Save tags
          </Button>
          <Button isSmall onClick={() => (text.value = undefined)}>
            Cancel
          </Button>
        </div>
      </Section>
    );
  }
  return (
    <Section
      title="Tags"
      actions={
        <Button isSmall needs={Scope.CONNECTIONS_WRITE} onClick={() => (text.value = lines.join("\n"))}>
          Edit
        </Button>
      }
    >
      {lines.length === 0 && <span class="quiet">No tags</span>}
      <ul class="chip-list">
        {lines.map((tag) => (
          <li key={tag}>
            <a class="chip" href={linkTo("/connections", { tag })} title={`Connections with ${tag}`}>
              {tag}
            </a>
          </li>
        ))}
      </ul>
    </Section>
  );
}
