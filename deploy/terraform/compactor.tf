# Runs `tenure compact` on Fargate every hour, started by EventBridge Scheduler.

variable "bucket" { type = string }
variable "prefix" { type = string }
variable "image" { type = string }
variable "cluster_arn" { type = string }
variable "subnets" { type = list(string) }
variable "region" { type = string }

locals {
  policy = replace(replace(file("${path.module}/../iam/compactor.json"),
  "BUCKET", var.bucket), "PREFIX", var.prefix)
}

data "aws_iam_policy_document" "assume_by_tasks" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

# The role of the task: list and delete, no put.
resource "aws_iam_role" "compactor" {
  name               = "tenure-compactor"
  assume_role_policy = data.aws_iam_policy_document.assume_by_tasks.json
}

resource "aws_iam_role_policy" "compactor" {
  role   = aws_iam_role.compactor.id
  policy = local.policy
}

# What Fargate needs to fetch the image and to write the log.
resource "aws_iam_role" "execution" {
  name               = "tenure-compactor-execution"
  assume_role_policy = data.aws_iam_policy_document.assume_by_tasks.json
}

resource "aws_iam_role_policy_attachment" "execution" {
  role       = aws_iam_role.execution.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
}

resource "aws_cloudwatch_log_group" "compactor" {
  name              = "/tenure/compactor"
  retention_in_days = 14
}

resource "aws_ecs_task_definition" "compactor" {
  family                   = "tenure-compactor"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 256
  memory                   = 512
  task_role_arn            = aws_iam_role.compactor.arn
  execution_role_arn       = aws_iam_role.execution.arn

  container_definitions = jsonencode([{
    name                   = "compact"
    image                  = var.image
    command                = ["compact", "--store", "s3://${var.bucket}/${var.prefix}", "--json"]
    user                   = "65532"
    readonlyRootFilesystem = true
    environment            = [{ name = "AWS_REGION", value = var.region }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.compactor.name
        awslogs-region        = var.region
        awslogs-stream-prefix = "compact"
      }
    }
  }])
}

data "aws_iam_policy_document" "assume_by_scheduler" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "scheduler" {
  name               = "tenure-compactor-scheduler"
  assume_role_policy = data.aws_iam_policy_document.assume_by_scheduler.json
}

data "aws_iam_policy_document" "start_the_task" {
  statement {
    actions   = ["ecs:RunTask"]
    resources = [aws_ecs_task_definition.compactor.arn_without_revision, "${aws_ecs_task_definition.compactor.arn_without_revision}:*"]
  }
  statement {
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.compactor.arn, aws_iam_role.execution.arn]
  }
}

resource "aws_iam_role_policy" "scheduler" {
  role   = aws_iam_role.scheduler.id
  policy = data.aws_iam_policy_document.start_the_task.json
}

resource "aws_scheduler_schedule" "compactor" {
  name                = "tenure-compactor"
  schedule_expression = "rate(1 hour)"

  flexible_time_window {
    mode                      = "FLEXIBLE"
    maximum_window_in_minutes = 10
  }

  target {
    arn      = var.cluster_arn
    role_arn = aws_iam_role.scheduler.arn

    ecs_parameters {
      task_definition_arn = aws_ecs_task_definition.compactor.arn
      launch_type         = "FARGATE"
      network_configuration {
        subnets = var.subnets
      }
    }

    # What is left over the next run deletes.
    retry_policy {
      maximum_retry_attempts = 0
    }
  }
}
