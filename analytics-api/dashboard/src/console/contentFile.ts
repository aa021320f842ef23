// Files that list content: CSV, lines of JSON, sitemaps, or addresses alone. Read in the page, so
// that a person sees what will be refused before anything is sent.

/** An entry as the API takes it, and where it was in the file. */
export interface ListedEntry {
  line: number;
  url: string;
  title?: string;
  entryId?: string;
  authors?: string[];
}

export interface RefusedLine {
  line: number;
  text: string;
  why: string;
}

export interface ContentFile {
  entries: ListedEntry[];
  refused: RefusedLine[];
}

/** The domains that the account speaks for. */
export interface OwnDomain {
  domain: string;
  includeSubdomains?: boolean;
}

export const FILE_BYTES_MAX = 16 << 20;
export const ENTRIES_MAX = 50_000;
const URL_CHARS_MAX = 2048;
const TITLE_CHARS_MAX = 1000;
const AUTHORS_MAX = 100;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const MEMBERS = ['url', 'title', 'entryId', 'authors'];

/** Why a whole file can't be read. */
export class FileFault extends Error {}

/** Reads a file of any of the kinds; throws a `FileFault` where it is none. */
export function readContent(text: string, own: OwnDomain[]): ContentFile {
  const content = text.replace(/^\uFEFF/, '').trimStart();
  if (content === '') throw new FileFault('The file is empty.');
  if (content.startsWith('['))
    throw new FileFault('This is a JSON array. Write one object a line, without commas between.');
  const rows = content.startsWith('<') ? sitemap(content) : content.startsWith('{') ? lines(content) : table(content);
  if (rows.length > ENTRIES_MAX) throw new FileFault(`The file lists more than ${ENTRIES_MAX}: split it.`);
  return checked(rows, own);
}

interface Row {
  line: number;
  text: string;
  /** Its members, or why it has none. */
  entry: Record<string, unknown> | string;
}

function checked(rows: Row[], own: OwnDomain[]): ContentFile {
  const found: ContentFile = { entries: [], refused: [] };
  const seen = new Map<string, number>();
  for (const { line, text, entry } of rows) {
    const fault = typeof entry === 'string' ? entry : faultOf(entry, own);
    const id = typeof entry === 'string' ? '' : String(entry.entryId ?? entry.url);
    const before = seen.get(id);
    if (fault !== null) found.refused.push({ line, text, why: fault });
    else if (before !== undefined) found.refused.push({ line, text, why: `the same as line ${before}` });
    else {
      seen.set(id, line);
      found.entries.push({ ...(entry as Omit<ListedEntry, 'line'>), line });
    }
  }
  return found;
}

/** The first thing that the API would refuse, as far as the page can know. */
function faultOf(entry: Record<string, unknown>, own: OwnDomain[]): string | null {
  const { url, title, entryId, authors } = entry;
  const other = Object.keys(entry).find((name) => !MEMBERS.includes(name));
  if (other !== undefined) return `it has “${other.slice(0, 40)}”: only ${MEMBERS.join(', ')} are known`;
  if (typeof url !== 'string' || url === '') return 'it has no url';
  if (url.length > URL_CHARS_MAX) return `its url is longer than ${URL_CHARS_MAX} characters`;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return 'its url isn’t an address with http:// or https://';
  const host = new URL(url).hostname.replace(/\.$/, '');
  if (!own.some((one) => covers(one, host))) return `${host} isn’t a domain of yours`;
  if (title !== undefined && (typeof title !== 'string' || title.trim() === '')) return 'its title is empty';
  if (typeof title === 'string' && [...title].length > TITLE_CHARS_MAX)
    return `its title is longer than ${TITLE_CHARS_MAX} characters`;
  if (entryId !== undefined && (typeof entryId !== 'string' || !UUID.test(entryId))) return 'its entryId isn’t a UUID';
  const isNames =
    Array.isArray(authors) && authors.length <= AUTHORS_MAX && authors.every((one) => typeof one === 'string');
  if (authors !== undefined && !isNames) return `its authors aren’t a list of ${AUTHORS_MAX} names at most`;
  return null;
}

const covers = ({ domain, includeSubdomains }: OwnDomain, host: string): boolean =>
  host === domain || (includeSubdomains === true && host.endsWith(`.${domain}`));

/** Lines of JSON. */
function lines(content: string): Row[] {
  return content.split('\n').flatMap((text, at) => {
    if (text.trim() === '') return [];
    return [{ line: at + 1, text: text.trim(), entry: parsed(text) }];
  });
}

function parsed(text: string): Row['entry'] {
  try {
    const value: unknown = JSON.parse(text);
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
    return 'it isn’t a JSON object';
  } catch {
    return 'it isn’t JSON';
  }
}

/** CSV with a head that names its columns, or addresses alone, one a line. */
function table(content: string): Row[] {
  const first = content.slice(0, content.search(/[\r\n]|$/));
  const separator = [',', ';', '\t'].reduce((most, one) =>
    first.split(one).length > first.split(most).length ? one : most,
  );
  const records = csv(content, separator);
  const isList = /^https?:\/\//i.test(first);
  const head = isList ? ['url'] : (records.shift()?.cells ?? []).map(columnName);
  if (!head.includes('url'))
    throw new FileFault('The first line names no column “url”. Known columns: url, title, authors, entryId.');
  return records.map(({ line, cells }) => {
    const entry: Record<string, unknown> = {};
    for (const [at, name] of head.entries()) {
      const value = (cells[at] ?? '').trim();
      if (value === '' || name === null) continue;
      entry[name] = name === 'authors' ? value.split(/\s*[;|]\s*/) : value;
    }
    return { line, text: cells.join(separator), entry };
  });
}

/** The member that a column is. Exports of other programs have many others: left out. */
function columnName(text: string): string | null {
  const name = text.trim().toLowerCase().replaceAll(/[ _-]/g, '');
  if (['url', 'link', 'loc', 'address'].includes(name)) return 'url';
  if (['author', 'authors'].includes(name)) return 'authors';
  return { title: 'title', headline: 'title', entryid: 'entryId' }[name] ?? null;
}

/** Records of CSV (RFC 4180), with the lines on which they begin. */
export function csv(content: string, separator: string): { line: number; cells: string[] }[] {
  const records: { line: number; cells: string[] }[] = [];
  let [cells, cell, line, begin, isQuoted]: [string[], string, number, number, boolean] = [[], '', 1, 1, false];
  const endRecord = () => {
    cells.push(cell);
    if (cells.length > 1 || cell.trim() !== '') records.push({ line: begin, cells });
    [cells, cell] = [[], ''];
  };
  for (let at = 0; at < content.length; at++) {
    const char = content.charAt(at);
    if (char === '\n') line++;
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (content.charAt(at + 1) === '"') cell += content.charAt(++at);
      else isQuoted = false;
    } else if (char === '"' && cell === '') isQuoted = true;
    else if (char === separator) {
      cells.push(cell);
      cell = '';
    } else if (char === '\n') {
      endRecord();
      begin = line;
    } else if (char !== '\r') cell += char;
  }
  endRecord();
  return records;
}

/**
 * The addresses of a sitemap, with titles where it is one for news. It is read as text: a parser of
 * the browser's puts its error message, with a style that the page's policy refuses, into what it
 * can't read.
 */
function sitemap(content: string): Row[] {
  const xml = content.replaceAll(/<!--[\s\S]*?-->/g, '');
  if (/<sitemapindex[\s>]/.test(xml)) {
    const parts = xml
      .split(/<sitemap(?=[\s>])/)
      .slice(1, 6)
      .map((one) => textOf(one, 'loc'));
    throw new FileFault(`This is an index of sitemaps. Choose the files that it names: ${parts.join(', ')}`);
  }
  if (!/<urlset[\s>]/.test(xml)) throw new FileFault('This XML isn’t a sitemap.');
  if (!/<\/urlset\s*>\s*$/.test(xml)) throw new FileFault('The sitemap isn’t complete: its end is missing.');
  return xml
    .split(/<url(?=[\s/>])/)
    .slice(1)
    .map((one, at) => {
      const [url, title] = [textOf(one, 'loc'), textOf(one, 'news:title')];
      return { line: at + 1, text: url, entry: { url, ...(title && { title }) } };
    });
}

/** Begin of an element of a sitemap that is looked at: more than its address and title need. */
const ELEMENT_CHARS_MAX = 20_000;
const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** The text of the first element of this name; empty if there is none. */
function textOf(xml: string, name: string): string {
  const element = new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}\\s*>`).exec(xml.slice(0, ELEMENT_CHARS_MAX));
  const text = (element?.[1] ?? '').trim();
  const literal = /^<!\[CDATA\[([\s\S]*)\]\]>$/.exec(text)?.[1];
  if (literal !== undefined) return literal.trim();
  return text.replaceAll(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi, (whole, decimal, hex, entity) => {
    if (entity) return ENTITIES[entity] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
