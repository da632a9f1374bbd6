// What is asked of the interface, with the visitor's access key.

export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const session = { key: "", ending: new AbortController() };

// Ends all that is under way with the key there was, and goes on with another one or none.
export function useKey(key) {
  session.ending.abort();
  Object.assign(session, { key, ending: new AbortController() });
}

export async function ask(method, path, { query = {}, body, accept } = {}) {
  const headers = { Authorization: `Bearer ${session.key}` };
  if (accept) headers.Accept = accept;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const asked = new URLSearchParams(query).toString();
  const options = { method, headers, signal: session.ending.signal, cache: "no-cache" };
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(asked ? `${path}?${asked}` : path, options);
  if (!answer.ok) throw new Refused(answer.status, await reasonOf(answer));
  return answer;
}

export async function get(path, query) {
  return (await ask("GET", path, { query })).json();
}

export async function reasonOf(answer) {
  // Where the key is forgotten meanwhile this ends with that, and there is nothing to tell.
  const text = await answer.text();
  try {
    return JSON.parse(text).message;
  } catch {
    return `The server, or what stands before it, answers ${answer.status}.`;
  }
}

// Yields the objects of an answer that has one a line, as they arrive.
export async function* readLines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (unread + value).split("\n");
    unread = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
