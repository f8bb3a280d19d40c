import { parse } from "yaml";

/** The parts of an OpenAPI document (3.x, or Swagger 2.0) that a provider's description needs. */
export interface OpenApiDocument {
  readonly title: string;
  readonly docsUrl: string;
  readonly servers: readonly OpenApiServer[];
  readonly securitySchemes: readonly SecurityScheme[];
  readonly operations: readonly OpenApiOperation[];
}

export interface OpenApiServer {
  readonly url: string;
  /** Default values of the variables in the URL, by name. */
  readonly variables: Readonly<Record<string, string>>;
}

/** A security scheme: the fields are those of OpenAPI 3. */
export interface SecurityScheme {
  readonly type: string;
  readonly name: string;
  readonly in: string;
  readonly scheme: string;
  readonly openIdConnectUrl: string;
  readonly flows: Readonly<Record<string, OAuthFlow>>;
}

export interface OAuthFlow {
  readonly authorizationUrl: string;
  readonly tokenUrl: string;
  readonly refreshUrl: string;
  readonly scopes: Readonly<Record<string, string>>;
}

export interface OpenApiOperation {
  readonly method: string;
  readonly path: string;
  readonly queryNames: readonly string[];
  /** Headers of the answer with status 429. */
  readonly limitHeaders: readonly string[];
}

/** The document is not OpenAPI. */
export class OpenApiMistake extends Error {
  override readonly name = "OpenApiMistake";
}

type Fields = Readonly<Record<string, unknown>>;

const methods = ["get", "post"] as const;

/** Reads YAML or JSON. */
export function readOpenApi(text: string): OpenApiDocument {
  const document = fieldsOf(parse(text));
  const isSwagger = document["swagger"] === "2.0";
  if (!isSwagger && !textOf(document["openapi"]).startsWith("3."))
    throw new OpenApiMistake('the file is no OpenAPI document: it has neither `openapi: 3.x` nor `swagger: "2.0"`');
  const resolve = resolverOf(document);
  const components = fieldsOf(document["components"]);
  const schemes = fieldsOf(isSwagger ? document["securityDefinitions"] : components["securitySchemes"]);
  return {
    title: textOf(fieldsOf(document["info"])["title"]),
    docsUrl: textOf(fieldsOf(document["externalDocs"])["url"]),
    servers: isSwagger ? [swaggerServer(document)] : listOf(document["servers"]).map(serverOf),
    securitySchemes: Object.values(schemes).map((scheme) => schemeOf(fieldsOf(resolve(scheme)), isSwagger)),
    operations: Object.entries(fieldsOf(document["paths"])).flatMap(([path, item]) =>
      operationsOf(path, fieldsOf(resolve(item)), resolve),
    ),
  };
}

/** Follows a `$ref` within the document. */
const resolverOf =
  (document: Fields) =>
  (value: unknown): unknown => {
    const reference = textOf(fieldsOf(value)["$ref"]);
    if (!reference.startsWith("#/")) return value;
    const steps = reference
      .slice(2)
      .split("/")
      .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    return steps.reduce<unknown>((at, step) => fieldsOf(at)[step], document);
  };

function serverOf(server: unknown): OpenApiServer {
  const { url, variables } = fieldsOf(server);
  const defaults = Object.entries(fieldsOf(variables)).map(([name, one]) => [name, textOf(fieldsOf(one)["default"])]);
  return { url: textOf(url), variables: Object.fromEntries(defaults) };
}

function swaggerServer({ host, basePath }: Fields): OpenApiServer {
  return { url: textOf(host) === "" ? "" : `https://${textOf(host)}${textOf(basePath)}`, variables: {} };
}

/** Swagger 2.0 has one flow in the scheme itself, and `basic` as a type. */
function schemeOf(scheme: Fields, isSwagger: boolean): SecurityScheme {
  const type = textOf(scheme["type"]);
  const flows = isSwagger && type === "oauth2" ? { [textOf(scheme["flow"])]: scheme } : fieldsOf(scheme["flows"]);
  return {
    type: type === "basic" ? "http" : type,
    name: textOf(scheme["name"]),
    in: textOf(scheme["in"]),
    scheme: type === "basic" ? "basic" : textOf(scheme["scheme"]).toLowerCase(),
    openIdConnectUrl: textOf(scheme["openIdConnectUrl"]),
    flows: Object.fromEntries(Object.entries(flows).map(([name, flow]) => [flowName(name), flowOf(fieldsOf(flow))])),
  };
}

const flowName = (name: string): string =>
  name === "accessCode" ? "authorizationCode" : name === "application" ? "clientCredentials" : name;

const flowOf = ({ authorizationUrl, tokenUrl, refreshUrl, scopes }: Fields): OAuthFlow => ({
  authorizationUrl: textOf(authorizationUrl),
  tokenUrl: textOf(tokenUrl),
  refreshUrl: textOf(refreshUrl),
  scopes: Object.fromEntries(Object.entries(fieldsOf(scopes)).map(([scope, meaning]) => [scope, textOf(meaning)])),
});

function operationsOf(path: string, item: Fields, resolve: (value: unknown) => unknown): readonly OpenApiOperation[] {
  return methods.flatMap((method) => {
    if (item[method] === undefined) return [];
    const operation = fieldsOf(item[method]);
    const parameters = [...listOf(item["parameters"]), ...listOf(operation["parameters"])].map(resolve).map(fieldsOf);
    const limited = fieldsOf(resolve(fieldsOf(operation["responses"])["429"]));
    return {
      method: method.toUpperCase(),
      path,
      queryNames: parameters.filter((one) => one["in"] === "query").map((one) => textOf(one["name"])),
      limitHeaders: Object.keys(fieldsOf(limited["headers"])).map((name) => name.toLowerCase()),
    };
  });
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
