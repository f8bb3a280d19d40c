/**
 * Counts durations in steps of a quarter of a power of two, from 8 µs to 9 minutes: a quantile is right to about a
 * tenth. The step is read from the bits of the number, so that counting costs a few nanoseconds.
 */
export class DurationCounts {
  readonly counts = new Uint32Array(steps);
  total = 0;

  add(ms: number): void {
    const at = stepOf(ms);
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.total += 1;
  }

  addAll({ counts, total }: DurationCounts): void {
    for (let i = 0; i < steps; i += 1) this.counts[i] = (this.counts[i] ?? 0) + (counts[i] ?? 0);
    this.total += total;
  }

  clear(): void {
    if (this.total === 0) return;
    this.counts.fill(0);
    this.total = 0;
  }

  /** Returns the milliseconds that this part of the durations does not exceed; 0 if there are none. */
  quantile(part: number): number {
    if (this.total === 0) return 0;
    const rank = part * this.total;
    let before = 0;
    for (let i = 0; i < steps; i += 1) {
      const here = this.counts[i] ?? 0;
      if (before + here >= rank && here > 0) {
        const [from, to] = [startOf(i), startOf(i + 1)];
        return from + ((rank - before) / here) * (to - from);
      }
      before += here;
    }
    return startOf(steps);
  }
}

const number = new Float32Array(1);
const bits = new Uint32Array(number.buffer);
/** The exponent and two bits of the fraction remain. */
const droppedBits = 21;
/** Bits of 2⁻⁷ ms. */
const first = (127 - 7) << 2;
const steps = 26 * 4;

function stepOf(ms: number): number {
  number[0] = ms;
  const step = ((bits[0] ?? 0) >>> droppedBits) - first;
  // Negative durations have the highest bit; there are none but by an error of the clock.
  if (step < 0 || ms < 0) return 0;
  return step < steps ? step : steps - 1;
}

function startOf(step: number): number {
  bits[0] = (first + step) << droppedBits;
  return number[0] ?? 0;
}
