/** Beginnings of descriptions, by the kind of authentication. */
export const templates: Readonly<Record<string, readonly [name: string, text: string]>> = {
  oauth2: [
    "OAuth 2",
    `name: acme
display_name: Acme
categories: [crm]
docs_url: https://docs.acme.example
console_url: https://acme.example/developers/apps
oauth2:
  authorization_url: https://acme.example/oauth/authorize
  token_url: https://acme.example/oauth/token
  default_scopes: [contacts.read]
  token_endpoint_auth_method: client_secret_post
  scope_notes:
    - { scope: contacts.read, meaning: See contacts., sensitivity: SENSITIVITY_BASIC }
proxy:
  base_url: https://api.acme.example
verification:
  request: { path: /me }
`,
  ],
  api_key: [
    "API key",
    `name: acme
display_name: Acme
docs_url: https://docs.acme.example
api_key:
  header: x-api-key
proxy:
  base_url: https://api.acme.example
verification:
  request: { path: /me }
`,
  ],
  basic: [
    "User name and password",
    `name: acme
display_name: Acme
docs_url: https://docs.acme.example
basic: {}
proxy:
  base_url: https://api.acme.example
verification:
  request: { path: /me }
`,
  ],
  account: [
    "An address for each account",
    `name: acme
display_name: Acme
docs_url: https://docs.acme.example
api_key:
  header: x-api-key
connection_fields:
  - name: subdomain
    title: Subdomain
    description: The name before .acme.example.
    example: northwind
    pattern: "[a-z0-9]([a-z0-9\\\\-]{0,61}[a-z0-9])?"
    required: true
proxy:
  base_url: https://\${connectionConfig.subdomain}.acme.example
`,
  ],
  webhooks: [
    "With signed webhooks",
    `name: acme
display_name: Acme
docs_url: https://docs.acme.example
api_key:
  header: x-api-key
proxy:
  base_url: https://api.acme.example
notification:
  signature: { scheme: hmac, header: x-acme-signature, hash: sha256, encoding: hex }
  values:
    account: { body: account.id }
    delivery: { header: x-acme-delivery }
  message_id: [delivery]
  lookups:
    - { field: metadata.accountId, value: account }
`,
  ],
};
