import type { ComponentChildren } from "preact";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { YamlEditor } from "../../components/yaml-editor.tsx";
import { useAct } from "../../data/act.ts";
import { counted } from "../../data/format.ts";
import { may } from "../../state/session.ts";
import { useProviderCheck } from "./provider-check.ts";

interface ProviderEditorProps {
  readonly text: string;
  readonly onInput: (text: string) => void;
  /** Name of the custom provider that the text replaces; empty for a new one. */
  readonly replaces: string;
  readonly verb: string;
  readonly save: (provider: Provider) => Promise<unknown>;
  readonly done?: string;
  /** Nothing to save. */
  readonly isSame?: boolean;
  readonly children?: ComponentChildren;
}

/** The description of a provider as YAML, checked while it is written. */
export function ProviderEditor(props: ProviderEditorProps) {
  const { text, onInput, replaces, verb, save, done, isSame = false, children } = props;
  const { result, fault, isBehind } = useProviderCheck(text, replaces, may(Scope.ADMIN));
  const acting = useAct({ isQuiet: true });
  const { mistakes = [], warnings = [], providers: found = [] } = result ?? {};
  const [provider] = found;
  const canSave = !isBehind && mistakes.length === 0 && found.length === 1;
  return (
    <form
      class="provider-editor"
      onSubmit={(event) => {
        event.preventDefault();
        if (canSave && provider !== undefined) void acting.run(() => save(provider), done);
      }}
    >
      <div class="editor-head">
        {children}
        <CheckState isBehind={isBehind} mistakes={mistakes.length} warnings={warnings.length} count={found.length} />
      </div>
      <YamlEditor
        label="Description of the provider"
        text={text}
        onInput={onInput}
        mistakes={mistakes}
        warnings={warnings}
      />
      {fault !== undefined && <FaultNotice fault={fault} />}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      <div class="form-actions">
        <Button
          type="submit"
          kind="primary"
          needs={Scope.ADMIN}
          isBusy={acting.isBusy}
          isDisabled={!canSave || isSame}
          {...(!canSave && { title: "Mend the mistakes first" })}
        >
          {verb}
        </Button>
      </div>
    </form>
  );
}

interface CheckStateProps {
  readonly isBehind: boolean;
  readonly mistakes: number;
  readonly warnings: number;
  readonly count: number;
}

function CheckState({ isBehind, mistakes, warnings, count }: CheckStateProps) {
  if (!may(Scope.ADMIN)) return <Badge tone="quiet">Not checked: your key lacks the scope admin</Badge>;
  if (isBehind) return <Badge tone="quiet">Checking</Badge>;
  if (mistakes > 0) return <Badge tone="bad">{counted(mistakes, "mistake")}</Badge>;
  if (count > 1) return <Badge tone="bad">Describe one provider</Badge>;
  if (warnings > 0) return <Badge tone="warn">{counted(warnings, "warning")}</Badge>;
  return <Badge tone="good">No mistakes</Badge>;
}
