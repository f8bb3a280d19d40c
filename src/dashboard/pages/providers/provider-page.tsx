import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Confirm } from "../../components/confirm.tsx";
import { PageFrame } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { useDraft } from "../../data/draft.ts";
import { authTitle, categoryTitle, loadProviders, providerTitle } from "../../data/known-providers.ts";
import { useLoad } from "../../data/load.ts";
import { providers } from "../../state/clients.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { ProviderEditor } from "./provider-editor.tsx";

/** The description of a provider: read-only for the catalog's, an editor for a custom one. */
export function ProviderPage({ values: { name = "" } }: PageProps) {
  const loaded = useLoad((signal) => providers.getProvider({ name, includeText: true }, { signal }), [name]);
  const isDeleting = useSignal(false);
  const { value, fault, reload } = loaded;
  const provider = value?.provider;
  const title = provider === undefined ? name : providerTitle(provider);
  const isOwn = provider?.custom === true && !provider.declared;
  return (
    <PageFrame
      title={
        <span class="marked">
          <ProviderMark name={name} title={title} categories={provider?.categories ?? []} isLarge />
          <span>
            {title} {provider?.custom && <Badge tone="info">Custom</Badge>}
          </span>
        </span>
      }
      above={[
        ["Integrations", linkTo("/integrations")],
        ["Catalog", linkTo("/catalog")],
      ]}
      lead={provider !== undefined && [authTitle(provider), ...provider.categories.map(categoryTitle)].join(" · ")}
      actions={
        provider !== undefined && (
          <>
            {isOwn && (
              <Button onClick={() => (isDeleting.value = true)} needs={Scope.ADMIN}>
                Delete
              </Button>
            )}
            {may(Scope.ADMIN) && (
              <a class="button" href={linkTo("/custom-provider", { from: name })}>
                Copy
              </a>
            )}
            <a class={isOwn ? "button" : "button primary"} href={linkTo(pathOf("catalog", name))}>
              Add integration
            </a>
          </>
        )
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton />}
      {provider !== undefined &&
        value !== undefined &&
        (isOwn ? (
          <CustomProvider key={String(provider.revision)} provider={provider} text={value.text} reload={reload} />
        ) : (
          <>
            <Notice>
              {provider.declared
                ? "This description comes from the configuration file. Change it there."
                : "This description is built in. Copy it to change how it works."}
            </Notice>
            <Code text={value.text} label="description" />
          </>
        ))}
      {isDeleting.value && provider !== undefined && (
        <Confirm
          title={`Delete ${title}?`}
          verb="Delete provider"
          isDanger
          typed={name}
          act={async () => {
            await providers.deleteProvider({ name, expectedRevision: provider.revision });
            await loadProviders();
            navigate(linkTo("/catalog"));
          }}
          done={`Deleted ${title}`}
          onClose={() => (isDeleting.value = false)}
        >
          <p>No integration may use it, in any environment. This cannot be undone.</p>
        </Confirm>
      )}
    </PageFrame>
  );
}

interface CustomProviderProps {
  readonly provider: Provider;
  readonly text: string;
  readonly reload: () => void;
}

function CustomProvider({ provider, text, reload }: CustomProviderProps) {
  // A draft belongs to the revision that it was begun with.
  const draft = useDraft(`provider:${provider.name}:${provider.revision}`, text);
  const written = draft.value;
  return (
    <ProviderEditor
      text={written.value}
      onInput={(value) => (written.value = value)}
      replaces={provider.name}
      verb="Save changes"
      done={`Saved ${provider.name}`}
      isSame={written.value === text}
      save={async (changed) => {
        await providers.updateProvider({ provider: changed, expectedRevision: provider.revision });
        draft.forget();
        await loadProviders();
        reload();
      }}
    >
      <p class="quiet">The next request uses the new description. Comments are not kept.</p>
    </ProviderEditor>
  );
}
