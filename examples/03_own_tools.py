"""An agent loop with Python functions as tools. It starts the embedded test model; no daemon is needed."""

import asyncio

from forge_proxy import ToolDef, Workflow, WorkflowRunner, respond_tool, setup_backend


def find_invoice(customer: str) -> dict[str, int]:
    """find the invoice"""
    return {"amount": 240}


WORKFLOW = Workflow(
    name="invoices",
    description="Looks up an invoice and reports its amount.",
    tools=[ToolDef.from_function(find_invoice), respond_tool()],
    required_steps=["find_invoice"],  # the model cannot end the run before this has succeeded
    terminal_tool="respond",
    system_prompt_template="You help with invoices.",
)


async def main() -> None:
    async with setup_backend(backend="embedded", request_options={"temperature": 0}) as backend:
        runner = WorkflowRunner(backend.client, backend.context)
        print(await runner.run(WORKFLOW, "Please find the invoice for customer Anna."))


if __name__ == "__main__":
    asyncio.run(main())
