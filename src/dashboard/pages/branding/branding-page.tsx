import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { useLoad } from "../../data/load.ts";
import { connectSessions, environments } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo } from "../../state/router.ts";
import { type Brand, brandOf, changedFields, isColor } from "./brand.ts";
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

interface BrandingFormProps {
  readonly environment: Environment;
  readonly onSaved: () => void;
}

function BrandingForm({ environment, onSaved }: BrandingFormProps) {
  const stored = brandOf(environment);
  const draft = useDraft<Brand>(`branding:${environment.name}:${environment.revision}`, stored);
  const brand = draft.value;
  const acting = useAct({ isQuiet: true });
  const fields = changedFields(stored, brand.value);
  const isDeclared = environment.declaredFields.includes("branding");
  const set = (changes: Partial<Brand>) => {
    brand.value = { ...brand.value, ...changes };
  };
  const problems = acting.fault?.fields ?? {};
  const colorProblem = problemOfColor(brand.value.accentColor);
  async function save() {
    await environments.updateEnvironment({
      environment: { name: environment.name, branding: brand.value },
      updateMask: { paths: fields.map((field) => `branding.${field}`) },
      expectedRevision: environment.revision,
    });
    draft.forget();
    onSaved();
  }
  const isConflict = acting.fault?.code === "conflict";
  return (
    <div class="columns branding">
      <form
        class="card form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (fields.length > 0 && colorProblem === undefined) void acting.run(save, "Saved the branding");
        }}
      >
        {isDeclared && <Notice>The configuration file declares the branding. Change it there.</Notice>}
        <BrandFields brand={brand.value} onChange={set} problems={problems} isDisabled={isDeclared} />
        {acting.fault !== undefined && (
          <FaultNotice
            fault={acting.fault}
            {...(isConflict && {
              retry: () => {
                acting.forget();
                onSaved();
              },
            })}
          />
        )}
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
          <Button onClick={() => (brand.value = stored)} isDisabled={fields.length === 0}>
            Undo
          </Button>
        </div>
        <p class="quiet">
          Who may connect, and in which language, is set for each session: see <a href={linkTo("/connect")}>Connect</a>.
        </p>
      </form>
      <div class="previews">
        <BrandPreview brand={brand.value} theme="light" />
        <BrandPreview brand={brand.value} theme="dark" />
      </div>
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
