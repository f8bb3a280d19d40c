import { useEffect } from "preact/hooks";
import { Select } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useDraft } from "../../data/draft.ts";
import { loadProviders } from "../../data/known-providers.ts";
import { useLoad } from "../../data/load.ts";
import { providers } from "../../state/clients.ts";
import { linkTo, navigate, pathOf, queryValue } from "../../state/router.ts";
import { ProviderEditor } from "./provider-editor.tsx";
import { templates } from "./templates.ts";

const [, firstText] = templates["oauth2"] ?? ["", ""];

/** Describes a provider that the catalog does not have: from a template, or from a copy of another (`from`). */
export function NewProviderPage() {
  const from = queryValue("from");
  const draft = useDraft(`new-provider:${from}`, from === "" ? firstText : "");
  const { value } = draft;
  const copied = useLoad(
    async (signal) =>
      from === "" ? "" : (await providers.getProvider({ name: from, includeText: true }, { signal })).text,
    [from],
  );
  useEffect(() => {
    if (copied.value !== undefined && copied.value !== "" && value.peek() === "")
      value.value = copied.value.replace(/^name: .*$/m, `name: my-${from}`);
  }, [copied.value]);
  const template = Object.entries(templates).find(([, [, text]]) => text === value.value)?.[0] ?? "";
  return (
    <PageFrame
      title="Describe a provider"
      above={[
        ["Integrations", linkTo("/integrations")],
        ["Catalog", linkTo("/catalog")],
      ]}
      lead="A description is a few lines of YAML: how the API authenticates, where it is, how it sends webhooks. It is then there for all environments."
    >
      {copied.fault !== undefined && <FaultNotice fault={copied.fault} retry={copied.reload} />}
      <ProviderEditor
        text={value.value}
        onInput={(text) => (value.value = text)}
        replaces=""
        verb="Create provider"
        done="Created the provider"
        save={async (provider) => {
          await providers.createProvider({ provider });
          draft.forget();
          await loadProviders();
          navigate(linkTo(pathOf("catalog", provider.name)));
        }}
      >
        <Select
          label="Begin with"
          value={template}
          onInput={(name) => {
            const [, text] = templates[name] ?? [];
            if (text !== undefined) value.value = text;
          }}
          options={[
            ["", "Your own text"],
            ...Object.entries(templates).map(([name, [title]]) => [name, title] as const),
          ]}
        />
      </ProviderEditor>
    </PageFrame>
  );
}
