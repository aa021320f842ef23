// Server-sent events (WHATWG HTML section 9.2) out of a fetched body: `EventSource` can't send an
// Authorization header.

export interface ServerEvent {
  event: string;
  data: string;
}

/** A line or an event longer than this is none of ours. */
const CHARS_MAX = 4 << 20;

/** Takes text as it comes, however it is cut, and gives whole events. */
export class EventParser {
  /**
   * The last `id:` seen: what a reconnection resumes after. None after what was too long, which
   * would only come again.
   */
  lastId: string | null = null;
  /** What `retry:` asked for, in milliseconds. */
  retryMs: number | null = null;
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id: string | null = null;
  #afterCr = false;
  #dataChars = 0;

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    // A CR at the end of the last piece and an LF now are one line's end.
    let rest = this.#rest + (this.#afterCr && text.startsWith('\n') ? text.slice(1) : text);
    if (text.length > 0) this.#afterCr = text.endsWith('\r');
    for (;;) {
      const end = rest.search(/[\r\n]/);
      if (end < 0) break;
      const line = rest.slice(0, end);
      const crLf = rest[end] === '\r' && rest[end + 1] === '\n';
      rest = rest.slice(end + (crLf ? 2 : 1));
      const event = this.#line(line);
      if (event) events.push(event);
    }
    if (rest.length + this.#dataChars > CHARS_MAX) {
      this.lastId = null;
      throw new Error('an event is too long');
    }
    this.#rest = rest;
    return events;
  }

  #line(line: string): ServerEvent | null {
    if (line === '') return this.#dispatch();
    if (line.startsWith(':')) return null;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    else if (field === 'data') {
      this.#data.push(value);
      this.#dataChars += value.length;
    } else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^\d{1,9}$/.test(value)) this.retryMs = Number(value);
    return null;
  }

  #dispatch(): ServerEvent | null {
    // An id counts once its event is whole: half an event must come again.
    if (this.#id !== null) this.lastId = this.#id;
    const event = this.#data.length > 0 ? { event: this.#event || 'message', data: this.#data.join('\n') } : null;
    this.#event = '';
    this.#data = [];
    this.#dataChars = 0;
    return event;
  }
}
