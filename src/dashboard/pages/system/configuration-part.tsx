import {
  type ConfigDifference,
  type ConfigReload,
  type ConfigSetting,
  ConfigDifference_Kind as Kind,
  ConfigSetting_Origin as Origin,
} from "../../../gen/latchkey/v1/system_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { Section } from "../../components/page.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { counted } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { system } from "../../state/clients.ts";
import { queryValue } from "../../state/router.ts";

/** The configuration in force: each value with where it comes from, and what the last reload changed. */
export function ConfigurationPart() {
  const { value, fault, reload } = useLoad((signal) => system.getConfig({}, { signal }), []);
  if (value === undefined) {
    return fault === undefined ? <Skeleton lines={12} /> : <FaultNotice fault={fault} retry={reload} />;
  }
  const shown = value.settings.filter(fits(queryValue("q"), queryValue("origin")));
  return (
    <>
      <p class="quiet">
        {value.file === ""
          ? "There is no configuration file: all values are variables or defaults."
          : `The configuration file is ${value.file}. Latchkey applies changes of it by itself.`}
      </p>
      {value.lastReload !== undefined && <LastReload reload={value.lastReload} />}
      <Section title="Values in force">
        <FilterBar>
          <SearchFilter label="Name, value or meaning" />
          <SelectFilter name="origin" label="From" options={origins} />
        </FilterBar>
        {shown.length === 0 ? (
          <Empty title="No values fit the filters">
            <p>Search for a part of a name, such as retention, or remove the filters.</p>
          </Empty>
        ) : (
          <Table label="Values in force" columns={columns} rows={shown} keyOf={({ name }) => name} />
        )}
      </Section>
    </>
  );
}

const origins = [
  ["set", "variables and file"],
  ["variable", "variables"],
  ["file", "the file"],
  ["default", "defaults"],
] as const;

function fits(text: string, from: string): (setting: ConfigSetting) => boolean {
  const wanted = text.toLowerCase();
  return ({ name, value, meaning, origin }) => {
    const isThere = [name, value, meaning].some((part) => part.toLowerCase().includes(wanted));
    if (!isThere) return false;
    if (from === "set") return origin !== Origin.DEFAULT;
    if (from === "variable") return origin === Origin.VARIABLE;
    if (from === "file") return origin === Origin.FILE;
    return from !== "default" || origin === Origin.DEFAULT;
  };
}

const columns: readonly TableColumn<ConfigSetting>[] = [
  {
    name: "Name",
    show: ({ name, meaning }) => (
      <span class="setting-name">
        <code>{name}</code>
        {meaning !== "" && <span class="quiet">{asSentence(meaning)}</span>}
      </span>
    ),
  },
  {
    name: "Value",
    show: ({ value, secret, origin, needsRestart }) => (
      <span class="state-line">
        {secret ? (
          <Badge tone="quiet">Set, secret</Badge>
        ) : (
          <Value text={value} isDefault={origin === Origin.DEFAULT} />
        )}
        {needsRestart && <Badge tone="warn">Another value after a restart</Badge>}
      </span>
    ),
  },
  { name: "From", show: (setting) => <span class="quiet">{originText(setting)}</span>, isMinor: true },
];

const asSentence = (text: string) =>
  text.startsWith("`") ? plain(text) : plain(text.charAt(0).toUpperCase() + text.slice(1));
const plain = (text: string) => text.replaceAll("`", "");

const Value = ({ text, isDefault }: { readonly text: string; readonly isDefault: boolean }) =>
  isDefault ? <span class="quiet">{plain(text)}</span> : <code>{text}</code>;

function originText({ origin, variable, file, line, name }: ConfigSetting): string {
  if (origin === Origin.DEFAULT) return "Default";
  if (origin === Origin.VARIABLE) return variable === name ? "Variable" : variable;
  return line > 0 ? `${file.split("/").at(-1)}, line ${line}` : file;
}

function LastReload({ reload: { at, applied, mistakes, differences } }: { readonly reload: ConfigReload }) {
  const heading = (
    <>
      Last reload <Time at={at} />
    </>
  );
  if (!applied) {
    return (
      <Section title={heading}>
        <Notice tone="bad">
          <p>The changed file was rejected. The previous configuration is still in force. Correct:</p>
          <ul class="lines">
            {mistakes.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </Notice>
      </Section>
    );
  }
  return (
    <Section title={heading}>
      {differences.length === 0 ? (
        <p class="quiet">The file was applied. No value differs from before.</p>
      ) : (
        <>
          <p class="section-lead quiet">The file was applied with {counted(differences.length, "difference")}.</p>
          <Table label="Differences" columns={changes} rows={differences} keyOf={({ name }) => name} />
        </>
      )}
    </Section>
  );
}

const kinds: Record<Kind, readonly [tone: "good" | "bad" | "info" | "quiet", word: string]> = {
  [Kind.UNSPECIFIED]: ["quiet", "Changed"],
  [Kind.ADDED]: ["good", "Added"],
  [Kind.REMOVED]: ["bad", "Removed"],
  [Kind.CHANGED]: ["info", "Changed"],
};

function KindBadge({ kind }: Pick<ConfigDifference, "kind">) {
  const [tone, word] = kinds[kind] ?? kinds[Kind.UNSPECIFIED];
  return <Badge tone={tone}>{word}</Badge>;
}

const changes: readonly TableColumn<ConfigDifference>[] = [
  { name: "Name", show: ({ name }) => <code>{name}</code> },
  {
    name: "Difference",
    show: ({ kind, needsRestart }) => (
      <span class="state-line">
        <KindBadge kind={kind} />
        {needsRestart && <Badge tone="warn">After a restart</Badge>}
      </span>
    ),
  },
  { name: "Before", show: ({ before }) => (before === "" ? <span class="quiet">–</span> : <code>{before}</code>) },
  { name: "After", show: ({ after }) => (after === "" ? <span class="quiet">–</span> : <code>{after}</code>) },
];
