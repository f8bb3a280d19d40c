import { useSignal } from "@preact/signals";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { Connection, ConnectionChoice, ConnectionRef } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { Select } from "../../../components/field.tsx";
import { Section } from "../../../components/page.tsx";
import { FaultNotice, Notice } from "../../../components/states.tsx";
import { useAct } from "../../../data/act.ts";
import { useLoad } from "../../../data/load.ts";
import { connections, providers } from "../../../state/clients.ts";

interface ChoicesSectionProps {
  readonly connection: Connection;
  readonly onChange: () => void;
}

/** What the connection uses where its grant covers several, such as one of several sites. Absent if there is no choice. */
export function ChoicesSection({ connection, onChange }: ChoicesSectionProps) {
  const { provider: name, ref, choicesNeeded } = connection;
  const { value: rules } = useLoad(
    async (signal) => (await providers.getProvider({ name }, { signal })).provider?.choices,
    [name],
  );
  const lists = useSignal<readonly ConnectionChoice[] | undefined>(undefined);
  const loading = useAct({ isQuiet: true });
  const isNeeded = choicesNeeded.length > 0;
  if (ref === undefined || (!isNeeded && (rules ?? []).length === 0)) return null;
  const titles = (rules ?? []).map(({ name: key, title }) => title || key).join(", ");
  const load = async () => {
    lists.value = (await connections.listConnectionChoices({ ref })).choices;
  };
  return (
    <Section
      title={titles || "Choices"}
      actions={
        <Button isSmall isBusy={loading.isBusy} onClick={() => void loading.run(load)}>
          {isNeeded ? "Choose" : "Change"}
        </Button>
      }
    >
      {isNeeded && <Notice tone="warn">Requests that need the choice fail until it is made.</Notice>}
      {loading.fault !== undefined && <FaultNotice fault={loading.fault} retry={() => void loading.run(load)} />}
      {!isNeeded && lists.value === undefined && <ChosenValues connection={connection} rules={rules ?? []} />}
      {lists.value !== undefined && (
        <ChoiceForm
          key={JSON.stringify(lists.value.map(({ options }) => options.length))}
          connection={ref}
          lists={lists.value}
          onDone={() => {
            lists.value = undefined;
            onChange();
          }}
        />
      )}
    </Section>
  );
}

interface ChosenValuesProps {
  readonly connection: Connection;
  readonly rules: readonly { readonly connectionConfig: Readonly<Record<string, string>> }[];
}

/** The stored values, the ones for people last. */
const ChosenValues = ({ connection: { connectionConfig = {} }, rules }: ChosenValuesProps) => (
  <ul class="chip-list">
    {rules
      .flatMap((rule) => Object.keys(rule.connectionConfig))
      .map((name) => (
        <li key={name} class="chip" title={name}>
          {String(connectionConfig[name] ?? "")}
        </li>
      ))}
  </ul>
);

interface ChoiceFormProps {
  readonly connection: ConnectionRef;
  readonly lists: readonly ConnectionChoice[];
  readonly onDone: () => void;
}

function ChoiceForm({ connection, lists, onDone }: ChoiceFormProps) {
  const chosen = useSignal<Readonly<Record<string, string>>>(
    Object.fromEntries(lists.map(({ name, options }) => [name, options.find((one) => one.chosen)?.id ?? ""])),
  );
  const saving = useAct({ isQuiet: true });
  const save = async () => {
    const options = Object.fromEntries(Object.entries(chosen.value).filter(([, id]) => id !== ""));
    await connections.chooseConnectionValues({ ref: connection, options });
    onDone();
  };
  const isEmpty = Object.values(chosen.value).every((id) => id === "");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!isEmpty) void saving.run(save, "Saved the choice");
      }}
    >
      {lists.map((list) =>
        list.options.length === 0 ? (
          <p key={list.name} class="quiet">
            {list.title}: {whyEmpty(list)}
          </p>
        ) : (
          <Select
            key={list.name}
            label={list.title}
            value={chosen.value[list.name] ?? ""}
            onInput={(id) => (chosen.value = { ...chosen.value, [list.name]: id })}
            options={[["", "Not chosen"], ...list.options.map(({ id, label }) => [id, label] as const)]}
          />
        ),
      )}
      {saving.fault !== undefined && <FaultNotice fault={saving.fault} />}
      <div class="form-actions">
        <Button
          isSmall
          kind="primary"
          type="submit"
          needs={Scope.CONNECTIONS_WRITE}
          isBusy={saving.isBusy}
          isDisabled={isEmpty}
        >
          Save
        </Button>
      </div>
    </form>
  );
}

function whyEmpty({ problem }: ConnectionChoice): string {
  if (problem === "") return "the provider offers none.";
  return problem === "earlier_choice" ? "save the other choice first." : `the provider sent no list (${problem}).`;
}
