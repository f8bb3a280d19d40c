import * as v from "valibot";

const listOf = <T extends v.GenericSchema>(entry: T, description: string) =>
  v.optional(v.pipe(v.array(entry), v.minLength(1), v.description(description)));

/** The schema of limits: what a key or an identity may use. Patterns are checked later, with those of other sources. */
export const accessLimits = v.pipe(
  v.strictObject({
    connections: listOf(
      v.strictObject({
        integration: v.pipe(v.string(), v.description("Key of the integration.")),
        id: v.optional(v.pipe(v.string(), v.description("ID of the connection (default: all of the integration)."))),
      }),
      "Connections that may be used.",
    ),
    methods: listOf(v.string(), "Methods that may be sent, in capitals."),
    paths: listOf(v.string(), "Paths at the provider: `*` is one segment, `**` at the end any rest."),
    hosts: listOf(v.string(), "Hosts of providers: api.example.com, or *.example.com for its subdomains."),
    tools: listOf(v.string(), "Tools of MCP servers: search, or read_* for all names that begin so."),
  }),
  v.description("What may be used. A request must satisfy every field."),
);

export type FileLimits = v.InferOutput<typeof accessLimits>;
