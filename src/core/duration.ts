const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export const durationForm = /^(\d{1,6})(ms|s|m|h|d)$/;

/** Returns the milliseconds of a duration; undefined for other text. */
export function millisecondsIn(text: string): number | undefined {
  const [, amount, unit = ""] = durationForm.exec(text) ?? [];
  return amount === undefined ? undefined : Number(amount) * (unitsMs[unit] ?? 0);
}
