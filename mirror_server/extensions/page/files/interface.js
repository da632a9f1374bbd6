// Requests to the interface with the visitor's access key.

export class RequestError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const session = { key: "", ending: new AbortController() };

// Abort all requests of the previous key, and use another key or none.
export function useKey(key) {
  session.ending.abort();
  Object.assign(session, { key, ending: new AbortController() });
}

export async function callApi(method, path, { query = {}, body, accept } = {}) {
  const headers = { Authorization: `Bearer ${session.key}` };
  if (accept) headers.Accept = accept;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const search = new URLSearchParams(query).toString();
  const options = { method, headers, signal: session.ending.signal, cache: "no-cache" };
  if (body !== undefined) options.body = JSON.stringify(body);
  const response = await fetch(search ? `${path}?${search}` : path, options);
  if (!response.ok) throw new RequestError(response.status, await reasonOf(response));
  return response;
}

export async function get(path, query) {
  return (await callApi("GET", path, { query })).json();
}

export async function reasonOf(response) {
  // If the visitor signs out meanwhile, this is aborted too, and no error is displayed.
  const text = await response.text();
  try {
    return JSON.parse(text).message;
  } catch {
    return `The server, or a proxy before it, responded with ${response.status}.`;
  }
}

// Yield the objects of a response with one object per line, as they arrive.
export async function* readLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (unread + value).split("\n");
    unread = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
