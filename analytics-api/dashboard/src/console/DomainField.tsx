// Where a domain is typed.

interface Props {
  name: string;
  maxLength: number;
  value: string;
  onType: (text: string) => void;
}

export function DomainField({ name, maxLength, value, onType }: Props) {
  return (
    <label class="pick wide-field">
      <span>{name}</span>
      <input
        type="text"
        inputMode="url"
        required
        maxLength={maxLength}
        placeholder="example.com"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={value}
        onInput={(event) => onType(event.currentTarget.value)}
      />
    </label>
  );
}
