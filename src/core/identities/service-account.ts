/** A Kubernetes service account. */
export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

const subjectForm = /^system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})$/;
const patternForm = /^([a-z0-9-]{1,63})\/(\*|[a-z0-9.-]{1,253})$/;

/** Reads the subject of a service account's token. */
export const readAccountSubject = (subject: string): ServiceAccount | undefined => accountIn(subjectForm.exec(subject));

/** Reads `namespace/name`, or `namespace/*` for every account of the namespace. */
export const readAccountPattern = (text: string): ServiceAccount | undefined => accountIn(patternForm.exec(text));

function accountIn(found: readonly string[] | null): ServiceAccount | undefined {
  const [, namespace, name] = found ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

export const isAccountWithin = (account: ServiceAccount, pattern: ServiceAccount): boolean =>
  account.namespace === pattern.namespace && (pattern.name === "*" || pattern.name === account.name);
