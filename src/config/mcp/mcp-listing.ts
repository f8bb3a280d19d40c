import * as v from "valibot";

const toolName = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9_-]{1,64}$|^[A-Za-z0-9_-]{0,63}\*$/, "must be the name of a tool, or its beginning and *"),
);

/** The schema of `mcp` in the configuration file. */
export const mcpSchema = v.pipe(
  v.strictObject({
    listed: v.optional(
      v.pipe(
        v.number(),
        v.integer(),
        v.minValue(0),
        v.maxValue(1_000),
        v.description(
          "Up to this number of tools, clients are shown all of them. Beyond it, they search (default: 40).",
        ),
      ),
    ),
    pinned: v.optional(
      v.pipe(
        v.array(toolName),
        v.maxLength(200),
        v.description("Tools that are always shown: names, or beginnings with * at the end."),
      ),
    ),
  }),
  v.description("Tools of the MCP endpoint that clients are shown."),
);

/** Which tools of the MCP endpoint clients are shown. */
export interface McpListing {
  /** Up to this number of tools, all are shown. */
  readonly listed: number;
  readonly pinned: readonly string[];
}

export const defaultListed = 40;

export const mcpListingOf = ({
  mcp = {},
}: {
  readonly mcp?: v.InferOutput<typeof mcpSchema> | undefined;
}): McpListing => ({ listed: mcp.listed ?? defaultListed, pinned: mcp.pinned ?? [] });
