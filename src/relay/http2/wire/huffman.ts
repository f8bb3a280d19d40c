/**
 * Lengths of the codes of RFC 7541, appendix B, by symbol; the last is EOS. The code is canonical: codes of the same
 * length are consecutive, in the order of their symbols.
 */
const codeLengths = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
  28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6,
  5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
  22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22,
  23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26,
  20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27,
  27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
  27, 27, 27, 26, 30,
];
const endOfString = 256;
/** RFC 7541, 5.2: padding is shorter than a byte. */
const maxPadding = 7;

/**
 * The decoder is a state machine that reads four bits at a time. A state is an inner node of the code's tree: 256 of
 * them. A step holds the next state, and above it the symbol that these bits complete, plus one: at most one, since the
 * shortest code has five bits.
 */
const steps = new Int32Array(256 * 16);
/** They take 3 ms when nothing is compiled yet, so they are made for the first string: many processes never read one. */
let isBuilt = false;
/** States in which a string may end: all bits since the last symbol are ones, and fewer than eight. */
const mayEnd = new Uint8Array(256);
const malformed = -1;

/** A node of the tree: the next node for 0 and for 1, or a symbol as -1 - symbol; 0: none yet. */
type TreeNode = [zero: number, one: number];

function buildTree(): TreeNode[] {
  const nodes: TreeNode[] = [[0, 0]];
  const symbols = codeLengths.map((_, symbol) => symbol);
  symbols.sort((a, b) => lengthOf(a) - lengthOf(b) || a - b);
  let code = 0;
  let length = lengthOf(symbols[0] ?? 0);
  for (const symbol of symbols) {
    code <<= lengthOf(symbol) - length;
    length = lengthOf(symbol);
    let at = 0;
    for (let bit = length - 1; bit >= 0; bit -= 1) {
      const side = (code >> bit) & 1;
      const node = nodes[at] ?? [0, 0];
      if (bit === 0) node[side] = -1 - symbol;
      else if (node[side] === 0) node[side] = nodes.push([0, 0]) - 1;
      at = node[side] ?? 0;
    }
    code += 1;
  }
  return nodes;
}

const lengthOf = (symbol: number): number => codeLengths[symbol] ?? 0;

function stepFrom(nodes: readonly TreeNode[], state: number, bits: number): number {
  let at = state;
  let symbol = -1;
  for (let bit = 3; bit >= 0; bit -= 1) {
    const next = nodes[at]?.[((bits >> bit) & 1) as 0 | 1] ?? 0;
    if (next >= 0) {
      at = next;
      continue;
    }
    symbol = -1 - next;
    if (symbol === endOfString) return malformed;
    at = 0;
  }
  return ((symbol + 1) << 8) | at;
}

function buildSteps(): void {
  const nodes = buildTree();
  for (let state = 0; state < nodes.length; state += 1) {
    for (let bits = 0; bits < 16; bits += 1) steps[state * 16 + bits] = stepFrom(nodes, state, bits);
  }
  for (let at = 0, depth = 0; depth <= maxPadding; depth += 1) {
    mayEnd[at] = 1;
    at = nodes[at]?.[1] ?? 0;
  }
  isBuilt = true;
}

/** Decoded bytes of the last string. */
let scratch = Buffer.allocUnsafeSlow(4_096);

/** Decodes a string; undefined: it is malformed. The returned bytes are valid until the next call. */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number): Buffer | undefined {
  if (!isBuilt) buildSteps();
  // The shortest code has five bits.
  const most = Math.ceil(((to - from) * 8) / 5);
  if (scratch.length < most) scratch = Buffer.allocUnsafeSlow(2 * most);
  const out = scratch;
  let length = 0;
  let state = 0;
  for (let i = from; i < to; i += 1) {
    const byte = bytes[i] as number;
    const high = steps[(state << 4) | (byte >> 4)] as number;
    if (high === malformed) return undefined;
    if (high > 255) {
      out[length] = (high >> 8) - 1;
      length += 1;
    }
    const low = steps[((high & 255) << 4) | (byte & 15)] as number;
    if (low === malformed) return undefined;
    if (low > 255) {
      out[length] = (low >> 8) - 1;
      length += 1;
    }
    state = low & 255;
  }
  return mayEnd[state] === 1 ? out.subarray(0, length) : undefined;
}
