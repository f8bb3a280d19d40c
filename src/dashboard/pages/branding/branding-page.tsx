import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { bytesText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { connectSessions, environments } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { faultOf } from "../../state/fault.ts";
import { say } from "../../state/messages.ts";
import { linkTo } from "../../state/router.ts";
import { ConflictDialog, type FieldConflict } from "../integrations/conflict-dialog.tsx";
import { type Brand, brandOf, changedFields, isColor, isLogo } from "./brand.ts";
import { BrandPreview } from "./brand-preview.tsx";
import { LogoField } from "./logo-field.tsx";

/** The look of the pages on which end users connect accounts. */
export function BrandingPage() {
  const name = environmentName.value;
  const loaded = useLoad(
    async (signal) => (await environments.getEnvironment({ name }, { signal })).environment,
    [name],
  );
  const opening = useAct();
  return (
    <PageFrame
      title="Branding"
      lead="How your users see the connect page of this environment: your name, logo and color."
      actions={
        <Button onClick={() => void opening.run(() => openConnectPage(name))} needs={Scope.CONNECTIONS_WRITE}>
          Open the connect page
        </Button>
      }
    >
      {loaded.fault !== undefined && <FaultNotice fault={loaded.fault} retry={loaded.reload} />}
      {loaded.value === undefined && loaded.fault === undefined && <Skeleton />}
      {loaded.value !== undefined && (
        <BrandingForm key={`${name}/${loaded.value.revision}`} environment={loaded.value} onSaved={loaded.reload} />
      )}
    </PageFrame>
  );
}

/** Opens the stored look in a tab of its own: the connect page refuses to be framed by other sites. */
async function openConnectPage(environment: string): Promise<void> {
  const opened = window.open("about:blank", "_blank");
  try {
    const { connectLink } = await connectSessions.createConnectSession({ environment, endUser: { id: "dashboard" } });
    if (opened === null) throw new Error("Your browser refused the new tab. Allow it for this page.");
    opened.location.href = connectLink;
  } catch (error) {
    opened?.close();
    throw error;
  }
}

/** What a person has written, and what it was changed from. */
interface BrandDraft {
  readonly revision: string;
  readonly base: Brand;
  readonly brand: Brand;
}

const brandDraftOf = (environment: Environment): BrandDraft => {
  const brand = brandOf(environment);
  return { revision: String(environment.revision), base: brand, brand };
};
const isBrandUntouched = ({ base, brand }: BrandDraft): boolean => changedFields(base, brand).length === 0;

const brandTitles: Readonly<Record<keyof Brand, string>> = {
  name: "Name of your application",
  logo: "Logo",
  accentColor: "Color of buttons",
  supportUrl: "Help for users",
};

/** Returns the changed fields, with all three values. An image is named by its size. */
function conflictsOf(before: Brand, theirs: Brand, mine: Brand): readonly FieldConflict[] {
  const shown = (text: string) => (isLogo(text) ? `an image of ${bytesText(text.length * 0.75)}` : text);
  return (Object.keys(brandTitles) as (keyof Brand)[])
    .filter((field) => before[field] !== theirs[field] || before[field] !== mine[field])
    .map((field) => ({
      path: field,
      title: brandTitles[field],
      before: shown(before[field]),
      theirs: shown(theirs[field]),
      mine: before[field] === mine[field] ? undefined : shown(mine[field]),
    }));
}

interface BrandingFormProps {
  readonly environment: Environment;
  readonly onSaved: () => void;
}

function BrandingForm({ environment, onSaved }: BrandingFormProps) {
  const { name } = environment;
  const draft = useDraft(`branding:${name}`, brandDraftOf(environment), isBrandUntouched);
  const { revision, base, brand } = draft.value.value;
  const theirs = useSignal<Environment | undefined>(undefined);
  const acting = useAct({ isQuiet: true });
  const fields = changedFields(base, brand);
  const isDeclared = environment.declaredFields.includes("branding");
  const set = (changes: Partial<Brand>) => {
    draft.value.value = { ...draft.value.value, brand: { ...brand, ...changes } };
  };
  const problems = acting.fault?.fields ?? {};
  const colorProblem = problemOfColor(brand.accentColor);

  async function save(expectedRevision: bigint): Promise<void> {
    const updateMask = { paths: fields.map((field) => `branding.${field}`) };
    try {
      await environments.updateEnvironment({ environment: { name, branding: brand }, updateMask, expectedRevision });
    } catch (error) {
      if (faultOf(error).code !== "conflict") throw error;
      theirs.value = (await environments.getEnvironment({ name })).environment;
      return;
    }
    say("Saved the branding");
    draft.forget();
    onSaved();
  }

  return (
    <div class="columns branding">
      <form
        class="card form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (fields.length > 0 && colorProblem === undefined) void acting.run(() => save(BigInt(revision)));
        }}
      >
        {isDeclared && <Notice>The configuration file declares the branding. Change it there.</Notice>}
        <BrandFields brand={brand} onChange={set} problems={problems} isDisabled={isDeclared} />
        {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
        <div class="form-actions">
          <Button
            type="submit"
            kind="primary"
            needs={Scope.ADMIN}
            isBusy={acting.isBusy}
            isDisabled={fields.length === 0 || isDeclared || colorProblem !== undefined}
          >
            Save branding
          </Button>
          <Button onClick={() => (draft.value.value = brandDraftOf(environment))} isDisabled={fields.length === 0}>
            Undo
          </Button>
        </div>
        <p class="quiet">
          Who may connect, and in which language, is set for each session: see <a href={linkTo("/connect")}>Connect</a>.
        </p>
      </form>
      <div class="previews">
        <BrandPreview brand={brand} theme="light" />
        <BrandPreview brand={brand} theme="dark" />
      </div>
      {theirs.value !== undefined && (
        <ConflictDialog
          conflicts={conflictsOf(base, brandOf(theirs.value), brand)}
          changedAt={theirs.value.updatedAt}
          onTakeTheirs={() => {
            if (theirs.value !== undefined) draft.value.value = brandDraftOf(theirs.value);
            theirs.value = undefined;
          }}
          onKeepMine={async () => {
            const now = theirs.value?.revision ?? 0n;
            theirs.value = undefined;
            await save(now);
          }}
          onClose={() => (theirs.value = undefined)}
        />
      )}
    </div>
  );
}

const problemOfColor = (color: string): string | undefined =>
  color === "" || isColor(color) ? undefined : "Write it as in #1f4fbf";

interface BrandFieldsProps {
  readonly brand: Brand;
  readonly onChange: (changes: Partial<Brand>) => void;
  /** What the server refused, by field path. */
  readonly problems: Readonly<Record<string, string>>;
  readonly isDisabled: boolean;
}

function BrandFields({ brand, onChange, problems, isDisabled }: BrandFieldsProps) {
  const { name, accentColor, supportUrl, logo } = brand;
  return (
    <>
      <Field
        label="Name of your application"
        value={name}
        onInput={(value) => onChange({ name: value })}
        placeholder="Acme"
        problem={problems["environment.branding.name"]}
        isDisabled={isDisabled}
      />
      <LogoField
        logo={logo}
        onChange={(value) => onChange({ logo: value })}
        problem={problems["environment.branding.logo"]}
        isDisabled={isDisabled}
      />
      <div class="beside color-field">
        <Field
          label="Color of buttons"
          value={accentColor}
          onInput={(value) => onChange({ accentColor: value.trim() })}
          placeholder="#1f4fbf"
          help="Text on it stays readable: Latchkey adjusts the shades."
          problem={problemOfColor(accentColor) ?? problems["environment.branding.accent_color"]}
          isDisabled={isDisabled}
          isCode
        />
        <input
          type="color"
          aria-label="Choose the color"
          value={isColor(accentColor) ? accentColor : "#1f4fbf"}
          disabled={isDisabled}
          onInput={(event) => onChange({ accentColor: event.currentTarget.value })}
        />
      </div>
      <Field
        label="Help for users"
        value={supportUrl}
        onInput={(value) => onChange({ supportUrl: value })}
        placeholder="https://acme.example/help or mailto:help@acme.example"
        problem={problems["environment.branding.support_url"]}
        isDisabled={isDisabled}
      />
    </>
  );
}
