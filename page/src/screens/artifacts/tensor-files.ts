/** The tensors that files of arrays and models name: shapes and types from their headers, without their numbers. */

export interface Tensor { name: string; type: string; shape: number[] }
/** Reads a part of the file. */
export type ReadPart = (from: number, length: number) => Promise<DataView>;

const MAX_HEADER = 32 << 20;
const MAX_TENSORS = 20_000;
const text = (view: DataView, from: number, length: number): string => new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + from, Math.max(0, Math.min(length, view.byteLength - from))));

/** The formats by their endings. */
export const TENSOR_FILES: Record<string, (read: ReadPart, size: number) => Promise<Tensor[]>> = {
  safetensors, npz, npy: async (read) => [{ name: "", ...array(await read(0, 4096)) }], onnx,
};

/** 8 bytes with the header's length, then the header as JSON (huggingface/safetensors). */
async function safetensors(read: ReadPart, size: number): Promise<Tensor[]> {
  const length = Number((await read(0, 8)).getBigUint64(0, true));
  if (length < 2 || length > Math.min(size - 8, MAX_HEADER)) throw new Error("its header has no valid length");
  const header = JSON.parse(text(await read(8, length), 0, length)) as Record<string, { dtype?: unknown; shape?: unknown }>;
  return Object.entries(header).filter(([name]) => name !== "__metadata__").slice(0, MAX_TENSORS)
    .map(([name, { dtype, shape }]) => ({ name, type: String(dtype), shape: Array.isArray(shape) ? shape.map(Number) : [] }));
}

const NPY = "\u0093NUMPY";

/** The header of NumPy's format. */
export function array(view: DataView): Omit<Tensor, "name"> {
  const magic = String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset, Math.min(6, view.byteLength)));
  if (magic !== NPY) throw new Error("it isn't in NumPy's format");
  const isFirst = view.getUint8(6) === 1;
  const length = isFirst ? view.getUint16(8, true) : view.getUint32(8, true);
  const header = text(view, isFirst ? 10 : 12, length);
  const type = /'descr':\s*'([^']*)'/.exec(header)?.[1] ?? "structured";
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "";
  return { type, shape: shape.split(",").map((one) => one.trim()).filter(Boolean).map(Number) };
}

const TAIL = 1 << 16;
const [END_OF_ZIP, ENTRY] = [0x06054b50, 0x02014b50];

/** A zip of arrays: the directory is at its end, and each array's header behind its own. */
async function npz(read: ReadPart, size: number): Promise<Tensor[]> {
  const tail = await read(Math.max(0, size - TAIL), Math.min(size, TAIL));
  let end = tail.byteLength - 22;
  while (end >= 0 && tail.getUint32(end, true) !== END_OF_ZIP) end -= 1;
  if (end < 0) throw new Error("it has no directory of a zip file");
  const [length, from] = [tail.getUint32(end + 12, true), tail.getUint32(end + 16, true)];
  if (from + length > size || length > MAX_HEADER) throw new Error("its directory is too long for the page");
  const directory = await read(from, length);
  const found: Tensor[] = [];
  for (let at = 0; at + 46 <= directory.byteLength && directory.getUint32(at, true) === ENTRY && found.length < 500;) {
    const [name, extra, comment] = [28, 30, 32].map((place) => directory.getUint16(at + place, true)) as [number, number, number];
    const title = text(directory, at + 46, name).replace(/\.npy$/, "");
    found.push({ name: title, ...await entry(read, directory.getUint16(at + 10, true), directory.getUint32(at + 42, true)) });
    at += 46 + name + extra + comment;
  }
  return found;
}

async function entry(read: ReadPart, packing: number, from: number): Promise<Omit<Tensor, "name">> {
  const head = await read(from, 4096);
  const start = 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const content = head.buffer.slice(head.byteOffset + start) as ArrayBuffer;
  try {
    return array(new DataView(packing === 8 ? await inflated(content) : content));
  } catch {
    return { type: "no array", shape: [] };
  }
}

/** What the beginning of a packed stream gives: the stream itself is cut. */
async function inflated(packed: ArrayBuffer): Promise<ArrayBuffer> {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const first = await reader.read();
  reader.cancel().catch(() => undefined);
  return new Uint8Array(first.value ?? []).buffer;
}

const ONNX_TYPES = ["undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4"];
const MAX_ONNX = 64 << 20;

interface Field { number: number; value: number; from: number; to: number }

/** The fields of a message of protobuf between two places; the last may go beyond what was read. */
function* fields(view: DataView, from: number, to: number): Generator<Field> {
  let at = from;
  const varint = (): number => {
    let [value, shift] = [0, 1];
    for (;;) {
      const byte = view.getUint8(at);
      at += 1;
      value += (byte & 127) * shift;
      shift *= 128;
      if (byte < 128) return value;
    }
  };
  while (at < Math.min(to, view.byteLength)) {
    const tag = varint();
    const [number, wire] = [Math.floor(tag / 8), tag % 8];
    if (wire === 0) yield { number, value: varint(), from: at, to: at };
    else if (wire === 2) {
      const length = varint();
      yield { number, value: 0, from: at, to: at + length };
      at += length;
    } else if (wire === 5 || wire === 1) at += wire === 5 ? 4 : 8;
    else throw new Error("it isn't in ONNX's format");
  }
}

/** ModelProto.graph = 7, GraphProto.initializer = 5, TensorProto.dims = 1, data_type = 2, name = 8 (onnx.proto). */
async function onnx(read: ReadPart, size: number): Promise<Tensor[]> {
  const view = await read(0, Math.min(size, MAX_ONNX));
  const found: Tensor[] = [];
  for (const graph of fields(view, 0, view.byteLength)) {
    if (graph.number !== 7) continue;
    for (const one of fields(view, graph.from, graph.to)) {
      if (one.number === 5 && found.length < MAX_TENSORS) found.push(tensor(view, one.from, one.to));
    }
  }
  return found;
}

function tensor(view: DataView, from: number, to: number): Tensor {
  const made: Tensor = { name: "", type: "undefined", shape: [] };
  for (const field of fields(view, from, to)) {
    if (field.number === 1 && field.to > field.from) for (const one of packed(view, field)) made.shape.push(one);
    else if (field.number === 1) made.shape.push(field.value);
    else if (field.number === 2) made.type = ONNX_TYPES[field.value] ?? `type ${field.value}`;
    else if (field.number === 8) made.name = text(view, field.from, field.to - field.from);
  }
  return made;
}

function packed(view: DataView, { from, to }: Field): number[] {
  const numbers: number[] = [];
  let [value, shift] = [0, 1];
  for (let at = from; at < Math.min(to, view.byteLength); at += 1) {
    const byte = view.getUint8(at);
    value += (byte & 127) * shift;
    shift *= 128;
    if (byte < 128) {
      numbers.push(value);
      [value, shift] = [0, 1];
    }
  }
  return numbers;
}

/** How many numbers the tensors have. */
export const countOf = (tensors: Tensor[]): number => tensors.reduce((all, one) => all + one.shape.reduce((product, size) => product * size, 1), 0);
