import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { counted } from "../../data/format.ts";
import { authTitle, categoryTitle, loadProviders, providerTitle, useProviders } from "../../data/known-providers.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { may } from "../../state/session.ts";

/** The grid of all providers, to choose one for a new integration. */
export function CatalogPage() {
  const { all, fault } = useProviders();
  const found = [...(all?.values() ?? [])].filter(isForAll).filter(filterOf()).sort(byTitle);
  return (
    <PageFrame
      title="Catalog"
      above={[["Integrations", linkTo("/integrations")]]}
      lead="Choose the provider of a new integration."
      actions={
        <>
          {may(Scope.INTEGRATIONS_WRITE) && (
            <a class="button" href={linkTo("/mcp-server")}>
              Add an MCP server
            </a>
          )}
          {may(Scope.ADMIN) && (
            <a class="button" href={linkTo("/custom-provider")}>
              Describe a custom provider
            </a>
          )}
        </>
      }
    >
      <FilterBar>
        <SearchFilter label="Name or category" />
        <SelectFilter name="category" label="Category" options={categoriesOf(all)} />
        <SelectFilter name="auth" label="Credentials" options={authKindsOf(all)} />
        {all !== undefined && <span class="quiet">{counted(found.length, "provider")}</span>}
      </FilterBar>
      {fault !== undefined && <FaultNotice fault={fault} retry={() => void loadProviders()} />}
      {all === undefined && fault === undefined && <Skeleton />}
      {all !== undefined && found.length === 0 && (
        <Empty title="No provider fits">
          <p>Change the search, or describe the provider's API yourself. It takes a few lines of YAML.</p>
          <a class="button" href={linkTo("/custom-provider")}>
            Describe a custom provider
          </a>
        </Empty>
      )}
      <ul class="catalog">
        {found.map((provider) => (
          <li key={provider.name}>
            <ProviderCard provider={provider} />
          </li>
        ))}
      </ul>
    </PageFrame>
  );
}

function ProviderCard({ provider }: { readonly provider: Provider }) {
  const { name, categories, custom, quickstartClient } = provider;
  const title = providerTitle(provider);
  const marks = [custom ? ["Custom"] : [], quickstartClient === undefined ? [] : ["Test credentials"]].flat();
  const sub = [...marks, authTitle(provider), ...categories.map(categoryTitle)].join(" · ");
  return (
    <a class="catalog-card" data-row-link href={linkTo(pathOf("catalog", name))}>
      <ProviderMark name={name} title={title} categories={categories} />
      <span class="catalog-text">
        <span class="catalog-title" title={title}>
          {title}
        </span>
        <span class="catalog-sub" title={sub}>
          {sub}
        </span>
      </span>
    </a>
  );
}

/** The description of an MCP server belongs to one integration. */
const isForAll = ({ mcp }: Provider): boolean => mcp === undefined;

/** Real providers first; the neutral ones, for trials, after them. */
function byTitle(one: Provider, other: Provider): number {
  const rank = ({ docsUrl, custom }: Provider) => (custom ? 0 : docsUrl === "" ? 2 : 1);
  return rank(one) - rank(other) || providerTitle(one).localeCompare(providerTitle(other));
}

function filterOf(): (provider: Provider) => boolean {
  const [text, category, auth] = [queryValue("q").toLowerCase(), queryValue("category"), queryValue("auth")];
  return (provider) => {
    const { name, categories } = provider;
    const texts = [name, provider.displayName, ...categories].map((one) => one.toLowerCase());
    return (
      texts.some((one) => one.includes(text)) &&
      (category === "" || categories.includes(category)) &&
      (auth === "" || provider.auth.case === auth)
    );
  };
}

type Options = readonly (readonly [value: string, name: string])[];

const sorted = (options: Iterable<readonly [string, string]>): Options =>
  [...new Map(options)].sort(([, one], [, other]) => one.localeCompare(other));

const categoriesOf = (all: ReadonlyMap<string, Provider> | undefined): Options =>
  sorted(
    [...(all?.values() ?? [])]
      .filter(isForAll)
      .flatMap(({ categories }) => categories.map((one) => [one, categoryTitle(one)] as const)),
  );

const authKindsOf = (all: ReadonlyMap<string, Provider> | undefined): Options =>
  sorted([...(all?.values() ?? [])].map((one) => [one.auth.case ?? "", authTitle(one)] as const));
