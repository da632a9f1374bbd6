/** Requests to the interface with the visitor's access key. */

export type Query = Record<string, string | number>;

interface RequestOptions {
  query?: Query;
  body?: unknown;
  accept?: string;
}

/** The server, or a proxy before it, responded with an error. `code` is the HTTP status, `body` the JSON of the error. */
export class RequestError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly body: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** The requests of one access key. `end()` aborts all of them. */
export class Session {
  private readonly ending = new AbortController();

  constructor(readonly key: string) {}

  get signal(): AbortSignal {
    return this.ending.signal;
  }

  end(): void {
    this.ending.abort();
  }

  async call(method: string, path: string, { query = {}, body, accept }: RequestOptions = {}): Promise<Response> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
    if (accept) headers["Accept"] = accept;
    const options: RequestInit = { method, headers, signal: this.signal, cache: "no-cache" };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
    const response = await fetch(search ? `${path}?${search}` : path, options);
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  async get<Content>(path: string, query?: Query): Promise<Content> {
    return jsonOf<Content>(await this.call("GET", path, query ? { query } : {}));
  }
}

/** Whether a key can be sent: a browser rejects other characters in a header. */
export function isSendable(key: string): boolean {
  return /^[\x21-\x7e]+$/.test(key);
}

/** Return the content of JSON. Anything else, such as the page of a proxy, is an error that is worth another attempt. */
function parsed<Content>(text: string): Content {
  try {
    return JSON.parse(text) as Content;
  } catch {
    throw new RequestError(502, "The server, or a proxy before it, responded with something other than JSON.");
  }
}

/** Whether an error is worth another attempt: the server is away or overloaded. */
export function isTemporary(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof RequestError && (error.code >= 500 || error.code === 429));
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Return the error in a response. If the visitor signs out meanwhile, this is aborted too. */
export async function errorOf(response: Response): Promise<RequestError> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    return new RequestError(response.status, String(body["message"]), body);
  } catch {
    return new RequestError(response.status, `The server, or a proxy before it, responded with ${response.status}.`);
  }
}

export async function jsonOf<Content>(response: Response): Promise<Content> {
  return parsed<Content>(await response.text());
}

/** Yield the objects of a response with one object per line, as they arrive. */
export async function* readLines<Line>(response: Response): AsyncGenerator<Line> {
  const reader = textReader(response);
  let unread = "";
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const lines = (unread + value).split("\n");
    unread = lines.pop() ?? "";
    for (const line of lines) yield parsed<Line>(line);
  }
}

export function textReader(response: Response): ReadableStreamDefaultReader<string> {
  if (!response.body) throw new TypeError("the response has no body");
  // Its type accepts no Uint8Array<ArrayBuffer>, although it decodes one.
  const decoder = new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>;
  return response.body.pipeThrough(decoder).getReader();
}
