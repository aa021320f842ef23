// A link that narrows the selection to what it names. One to another page has no funnel.

interface Props {
  href: string;
  name: string;
}

export function Narrow({ href, name }: Props) {
  return (
    <a class="narrow" href={href} title={`Only ${name}`}>
      <span class="cut">{name}</span>
      <svg class="funnel" viewBox="0 0 10 10" aria-hidden="true">
        <path d="M0 0.5h10L6.2 5v4.5L3.8 8V5z" />
      </svg>
    </a>
  );
}
