import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { SigningSecret } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Select } from "../../components/field.tsx";
import { Section } from "../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { useLoad } from "../../data/load.ts";
import { environments } from "../../state/clients.ts";
import { NewSecret } from "./new-secret.tsx";
import { defaultOverlap, overlapOf, overlaps } from "./overlaps.ts";

const columns: readonly TableColumn<SigningSecret>[] = [
  { name: "Secret", show: ({ id }) => <code>{id}</code> },
  {
    name: "State",
    show: ({ retiresAt }) =>
      retiresAt === undefined ? (
        <Badge tone="good">Signs</Badge>
      ) : (
        <Badge tone="warn">
          Ends <Time at={retiresAt} />
        </Badge>
      ),
  },
  { name: "Created", show: ({ createdAt }) => <Time at={createdAt} /> },
];

/** The secrets that sign deliveries to the application. */
export function SigningSecretsPart({ environment }: { readonly environment: string }) {
  const isRotating = useSignal(false);
  const shown = useSignal<readonly SigningSecret[] | undefined>(undefined);
  const revealing = useAct();
  const { value, fault, reload } = useLoad(
    (signal) => environments.listSigningSecrets({ environment }, { signal }),
    [environment],
  );
  const reveal = () =>
    revealing.run(async () => {
      const { secrets } = await environments.listSigningSecrets({ environment, reveal: true });
      shown.value = secrets;
    });
  return (
    <Section
      title="Signing secrets"
      actions={
        <span class="row-actions">
          <Button isSmall needs={Scope.ADMIN} isBusy={revealing.isBusy} onClick={() => void reveal()}>
            Reveal
          </Button>
          <Button isSmall needs={Scope.ADMIN} onClick={() => (isRotating.value = true)}>
            Rotate
          </Button>
        </span>
      }
    >
      <p class="section-lead quiet">
        They sign deliveries, so that your application can tell that they come from Latchkey.
      </p>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={2} />}
      {value?.secrets.length === 0 && (
        <Empty title="No signing secret yet">
          <p>The first delivery creates one. Rotate to create it now.</p>
        </Empty>
      )}
      {value !== undefined && value.secrets.length > 0 && (
        <Table label="Signing secrets" columns={columns} rows={value.secrets} keyOf={({ id }) => id} />
      )}
      {shown.value !== undefined && <RevealedDialog secrets={shown.value} onClose={() => (shown.value = undefined)} />}
      {isRotating.value && (
        <RotateDialog environment={environment} onMade={reload} onClose={() => (isRotating.value = false)} />
      )}
    </Section>
  );
}

/** The values go with the dialog. */
const RevealedDialog = ({
  secrets,
  onClose,
}: {
  readonly secrets: readonly SigningSecret[];
  readonly onClose: () => void;
}) => (
  <Dialog
    title="Signing secrets"
    onClose={onClose}
    onSubmit={onClose}
    actions={
      <Button type="submit" kind="primary">
        Done
      </Button>
    }
  >
    {secrets.map(({ id, secret }) => (
      <div key={id}>
        <p class="quiet">{id}</p>
        <div class="new-secret">
          <CopyField text={secret} label="secret" />
        </div>
      </div>
    ))}
    <p class="quiet">The audit trail notes that they were shown.</p>
  </Dialog>
);

interface SecretDialogProps {
  readonly environment: string;
  readonly onClose: () => void;
}

function RotateDialog({ environment, onMade, onClose }: SecretDialogProps & { readonly onMade: () => void }) {
  const hours = useSignal<string>(defaultOverlap);
  const made = useSignal<SigningSecret | undefined>(undefined);
  const acting = useAct({ isQuiet: true });

  async function submit() {
    await acting.run(async () => {
      const { secret } = await environments.rotateSigningSecret({ environment, overlap: overlapOf(hours.value) });
      made.value = secret;
      onMade();
    });
  }

  if (made.value !== undefined) {
    return (
      <NewSecret title="New signing secret" of={made.value.id} secret={made.value.secret} onClose={onClose}>
        <p>Add it to your application. Until the overlap ends, deliveries are signed with the old secret too.</p>
      </NewSecret>
    );
  }
  return (
    <Dialog
      title="Rotate the signing secret"
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy}>
            Rotate secret
          </Button>
        </>
      }
    >
      <p>Creates a new secret for {environment}. During the overlap, each delivery carries both signatures.</p>
      <Select
        label="The old secret also signs for"
        value={hours.value}
        onInput={(value) => (hours.value = value)}
        options={overlaps}
      />
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
