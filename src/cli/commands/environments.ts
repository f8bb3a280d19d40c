import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  DeleteEnvironmentResponseSchema,
  type Environment,
  EnvironmentSchema,
  EnvironmentService,
  type SigningSecret,
  SigningSecretSchema,
} from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { durationMs, listed } from "../terminal/option-values.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";
import { addEmpty } from "./emptying.ts";

interface EnvironmentOptions extends RevisionOption {
  readonly forwardUrl?: string;
  readonly secondaryForwardUrl?: string;
  readonly allowedOrigin?: readonly string[];
  readonly brandName?: string;
  readonly logo?: string;
  readonly accentColor?: string;
  readonly supportUrl?: string;
}

/** Adds the `environments` commands. */
export function addEnvironments(program: Command, act: Act): void {
  const group = program.command("environments").summary("manage environments, such as dev and prod");
  addList(group, act);
  addGet(group, act);
  addCreate(group, act);
  addUpdate(group, act);
  addDelete(group, act);
  addEmpty(group, act);
  addSecrets(group, act);
  addRotateSecret(group, act);
}

function addList(group: Command, act: Act): void {
  listCommand(group.command("list").summary("list environments; with an environment's key, only its own"), act, {
    schema: EnvironmentSchema,
    none: "no environments",
    rpc: ({ client }, page) => client(EnvironmentService).listEnvironments(page),
    items: ({ environments }) => environments,
    columns: [
      { title: "NAME", text: ({ name }) => name },
      { title: "FORWARD URL", text: ({ forwardUrl }) => forwardUrl },
      { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
      { title: "CREATED", time: ({ createdAt }) => createdAt },
    ],
  });
}

/** Prints the environment that a call returns. On a terminal, its logo is named and not printed. */
const environmentCommand = <A extends readonly unknown[]>(
  command: Command,
  act: Act,
  rpc: (session: CommandSession, ...args: A) => Promise<Environment | undefined>,
): void =>
  objectCommand(command, act, EnvironmentSchema, async (session: CommandSession, ...args: A) => {
    const environment = await rpc(session, ...args);
    const logo = environment?.branding?.logo ?? "";
    if (environment?.branding === undefined || logo === "" || !session.output.layout.brief) return environment;
    const [type = ""] = logo.split(",", 1);
    return { ...environment, branding: { ...environment.branding, logo: `${type},… (${logo.length} characters)` } };
  });

function addGet(group: Command, act: Act): void {
  const get = group
    .command("get")
    .summary("show an environment")
    .argument("[name]", "name of the environment (default: --environment, or the key's own)");
  environmentCommand(get, act, async ({ client, environment: own }, name?: string) => {
    const { environment } = await client(EnvironmentService).getEnvironment({ name: name ?? own });
    return environment;
  });
}

function addCreate(group: Command, act: Act): void {
  const create = withSettings(group.command("create"))
    .summary("create an empty environment")
    .argument("<name>", "lower-case letters, digits and dashes");
  environmentCommand(create, act, async ({ client }, name: string, given: EnvironmentOptions) => {
    const { allowedOrigin = [], forwardUrl = "", secondaryForwardUrl = "" } = given;
    const branding = brandingOf(given);
    const request = { name, forwardUrl, secondaryForwardUrl, allowedOrigins: [...allowedOrigin], branding };
    return (await client(EnvironmentService).createEnvironment(request)).environment;
  });
}

function addUpdate(group: Command, act: Act): void {
  type UpdateOptions = EnvironmentOptions & { readonly allowedOrigins: boolean; readonly branding: boolean };
  const update = withExpectedRevision(withSettings(group.command("update")))
    .summary("change an environment; settings that you leave out stay the same")
    .argument("<name>", "name of the environment")
    .option("--no-allowed-origins", "remove all allowed origins")
    .option("--no-branding", "remove the name, logo, color and support URL of the connect pages");
  environmentCommand(update, act, async ({ client }, name: string, given: UpdateOptions) => {
    const { forwardUrl, secondaryForwardUrl, expectedRevision = 0n } = given;
    const allowedOrigins = given.allowedOrigins ? given.allowedOrigin : [];
    const branding = given.branding ? brandingOf(given) : {};
    const paths = [
      ...(forwardUrl === undefined ? [] : ["forward_url"]),
      ...(secondaryForwardUrl === undefined ? [] : ["secondary_forward_url"]),
      ...(allowedOrigins === undefined ? [] : ["allowed_origins"]),
      ...(given.branding ? Object.keys(branding).map((field) => `branding.${brandingPaths[field]}`) : ["branding"]),
    ];
    // An empty mask would mean all fields, and clear those that were not given.
    if (paths.length === 0)
      throw new UsageMistake(
        "nothing to change: give --forward-url, --secondary-forward-url, --allowed-origin or a setting of the connect pages, such as --brand-name",
      );
    const { environment } = await client(EnvironmentService).updateEnvironment({
      environment: {
        name,
        forwardUrl: forwardUrl ?? "",
        secondaryForwardUrl: secondaryForwardUrl ?? "",
        allowedOrigins: [...(allowedOrigins ?? [])],
        branding,
      },
      updateMask: { paths },
      expectedRevision,
    });
    return environment;
  });
}

function addDelete(group: Command, act: Act): void {
  withYes(withExpectedRevision(group.command("delete")))
    .summary("delete an environment and its keys; it must have no integrations")
    .argument("<name>", "name of the environment")
    .action(
      act(async (session, name: string, { expectedRevision = 0n, yes }: RevisionOption & YesOption) => {
        const { client, output } = session;
        await requireYes(session.terminal, `Delete the environment ${name} and its keys?`, yes);
        const answer = await client(EnvironmentService).deleteEnvironment({ name, expectedRevision });
        await output.done(DeleteEnvironmentResponseSchema, answer, `deleted environment ${name}`);
      }),
    );
}

interface RevealOption {
  readonly reveal?: boolean;
}

function addSecrets(group: Command, act: Act): void {
  group
    .command("secrets")
    .summary("list the secrets that sign an environment's deliveries, newest first")
    .argument("[name]", secretOwner)
    .option("--reveal", "show the secret values")
    .action(
      act(async ({ client, output, environment: own }, name: string | undefined, { reveal = false }: RevealOption) => {
        const request = { environment: name ?? own, reveal };
        async function* pages() {
          yield (await client(EnvironmentService).listSigningSecrets(request)).secrets;
        }
        await output.many({
          schema: SigningSecretSchema,
          none: "no signing secrets",
          pages: pages(),
          columns: [
            { title: "ID", text: ({ id }) => id },
            { title: "CREATED", time: ({ createdAt }) => createdAt },
            { title: "SIGNS UNTIL", time: ({ retiresAt }) => retiresAt },
            ...(reveal ? [{ title: "SECRET", text: ({ secret }: SigningSecret) => secret }] : []),
          ],
        });
      }),
    );
}

interface RotationOptions extends RevealOption {
  readonly overlap?: number;
}

function addRotateSecret(group: Command, act: Act): void {
  group
    .command("rotate-secret")
    .summary("create a new signing secret; the previous one also signs for a while")
    .argument("[name]", secretOwner)
    .option(
      "--overlap <duration>",
      "how long the previous secret also signs; 0s stops it at once (default: 24h)",
      durationMs,
    )
    .option("--reveal", "show the new secret")
    .action(
      act(async ({ client, output, environment: own }, name: string | undefined, given: RotationOptions) => {
        const { reveal, overlap } = given;
        const { secret } = await client(EnvironmentService).rotateSigningSecret({
          environment: name ?? own,
          ...(overlap === undefined ? {} : { overlap: durationFromMs(overlap) }),
        });
        if (secret === undefined) return;
        await output.one(SigningSecretSchema, reveal === true ? secret : { ...secret, secret: "" });
        if (reveal !== true && !output.json) await output.note("`environments secrets --reveal` shows the secret.");
      }),
    );
}

const secretOwner = "name of the environment (default: --environment, or the only one)";

const brandingPaths: Readonly<Record<string, string>> = {
  name: "name",
  logo: "logo",
  accentColor: "accent_color",
  supportUrl: "support_url",
};

/** Returns the given settings of the connect pages. */
const brandingOf = ({ brandName, logo, accentColor, supportUrl }: EnvironmentOptions) => ({
  ...(brandName === undefined ? {} : { name: brandName }),
  ...(logo === undefined ? {} : { logo: logo === "" ? "" : imageUri(logo) }),
  ...(accentColor === undefined ? {} : { accentColor }),
  ...(supportUrl === undefined ? {} : { supportUrl }),
});

const imageTypes: Readonly<Record<string, string>> = {
  ".png": "png",
  ".jpg": "jpeg",
  ".jpeg": "jpeg",
  ".webp": "webp",
  ".svg": "svg+xml",
};

/** Returns an image file as a `data:` URI. */
function imageUri(path: string): string {
  const type = imageTypes[extname(path).toLowerCase()];
  if (type === undefined) throw new UsageMistake("--logo must name a .png, .jpg, .webp or .svg file");
  try {
    return `data:image/${type};base64,${readFileSync(path).toString("base64")}`;
  } catch (error) {
    throw new UsageMistake(`--logo: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const withSettings = (command: Command): Command =>
  command
    .option("--forward-url <url>", "URL of your application that receives webhooks")
    .option("--secondary-forward-url <url>", "URL that receives a second copy of each webhook")
    .option("--allowed-origin <origin>", "origin whose pages may call the browser routes; repeatable", listed)
    .option("--brand-name <text>", "name of your application, shown on the connect pages")
    .option("--logo <file>", "PNG, JPEG, WebP or SVG shown on the connect pages, up to 32 KiB")
    .option("--accent-color <#rrggbb>", "color of buttons and links on the connect pages")
    .option("--support-url <url>", "where end users get help: an https or mailto URL");
