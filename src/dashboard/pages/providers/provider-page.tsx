import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { GetProviderResponse, Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
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
import { faultOf } from "../../state/fault.ts";
import { say } from "../../state/messages.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { ProviderEditor } from "./provider-editor.tsx";
import { TextConflict } from "./text-conflict.tsx";

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

/** What a person has written, and the revision that it was begun with. */
interface ProviderDraft {
  readonly revision: string;
  readonly base: string;
  readonly text: string;
}

function CustomProvider({ provider, text, reload }: CustomProviderProps) {
  const { name, revision } = provider;
  const initial: ProviderDraft = { revision: String(revision), base: text, text };
  const draft = useDraft(`provider:${name}`, initial, (one) => one.text === one.base);
  const { value } = draft;
  const theirs = useSignal<GetProviderResponse | undefined>(undefined);
  const wanted = useSignal<Provider | undefined>(undefined);

  async function save(changed: Provider, expectedRevision: bigint): Promise<void> {
    try {
      await providers.updateProvider({ provider: changed, expectedRevision });
    } catch (error) {
      if (faultOf(error).code !== "conflict") throw error;
      wanted.value = changed;
      theirs.value = await providers.getProvider({ name, includeText: true });
      return;
    }
    draft.forget();
    say(`Saved ${name}`);
    await loadProviders();
    reload();
  }

  return (
    <>
      <ProviderEditor
        text={value.value.text}
        onInput={(written) => (value.value = { ...value.value, text: written })}
        replaces={name}
        verb="Save changes"
        isSame={value.value.text === value.value.base}
        save={(changed) => save(changed, BigInt(value.value.revision))}
      >
        <p class="quiet">The next request uses the new description. Comments are not kept.</p>
      </ProviderEditor>
      {theirs.value !== undefined && (
        <TextConflict
          stored={theirs.value.text}
          mine={value.value.text}
          changedAt={theirs.value.provider?.updatedAt}
          onTakeTheirs={() => {
            const now = theirs.value;
            theirs.value = undefined;
            if (now === undefined) return;
            value.value = { revision: String(now.provider?.revision), base: now.text, text: now.text };
          }}
          onKeepMine={async () => {
            const now = theirs.value?.provider?.revision ?? 0n;
            theirs.value = undefined;
            if (wanted.value !== undefined) await save(wanted.value, now);
          }}
          onClose={() => (theirs.value = undefined)}
        />
      )}
    </>
  );
}
