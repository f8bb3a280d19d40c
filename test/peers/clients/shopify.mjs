// Creates a product by GraphQL, and reads those of two pages by REST.
import { createAdminApiClient, createAdminRestApiClient } from "@shopify/admin-api-client";

const { ADDRESS, KEY } = process.env;
const shop = { storeDomain: "acme.myshopify.com", apiVersion: "2026-10", accessToken: "unused" };
// The client sends its token in a header of Shopify's, so that the key goes in another.
const customFetchApi = (url, options) =>
  fetch(url.replace("https://acme.myshopify.com", ADDRESS), {
    ...options,
    headers: { ...options.headers, "latchkey-key": KEY },
  });
const graphql = createAdminApiClient({ ...shop, customFetchApi });
const rest = createAdminRestApiClient({ ...shop, customFetchApi });

const mutation = "mutation Create($title: String!) { productCreate(product: { title: $title }) { product { id } } }";
const made = await graphql.request(mutation, { variables: { title: "Tea & ü" } });
const first = await rest.get("products", { searchParams: { limit: 1 } });
const next = new URL(/<([^>]+)>; rel="next"/.exec(first.headers.get("link"))[1]);
const second = await rest.get("products", { searchParams: Object.fromEntries(next.searchParams) });
const refusal = await rest.get("products/404");

const { products: before } = await first.json();
const { products: after } = await second.json();
console.log(
  JSON.stringify({
    written: made.data.productCreate.product.id,
    read: [...before, ...after].map(({ id }) => id),
    refused: [refusal.status, (await refusal.json()).errors],
  }),
);
